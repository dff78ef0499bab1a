"""Names of files that steer a terminal: written out wherever a command prints them."""

from pathlib import Path

import pytest
from rich.table import Table

from vitscope.cli.app import main
from vitscope.report.console import SafeConsole, wide_console

RED = "ok\x1b[31mX"


def test_a_run_folder_that_would_colour_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / RED)
    diagnosed = ["diagnose", "vit_mini", "--exams", "prediction", "--limit", "20", "--out", out]
    for command in (diagnosed, ["prescribe", out], ["report", out, "-o", f"{out}/page.html"]):
        assert main(command) == 0
        said = capsys.readouterr().out
        assert "\x1b" not in said
        assert r"ok\x1b[31mX" in said.replace("\n", "")


def test_tables_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(RED, box=None)
    table.add_row(RED)
    assert isinstance(wide_console(), SafeConsole)
    SafeConsole().print(RED, table, markup=False)
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert said.count(r"\x1b") == 3
