import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.older import COMMAND, age
from vitscope.cli.app import main


def test_a_page_for_nobody(tmp_path: Path) -> None:
    """A special file is written to, not replaced by a page."""
    assert (
        main(["diagnose", "vit_mini", "--exams", "prediction", "--limit", "10", "--out", str(tmp_path)]) == 0
    )
    null = tmp_path / "null"
    null.symlink_to("/dev/null")  # by a link: whoever breaks this as root must not lose the device itself
    assert main(["report", str(tmp_path), "-o", str(null)]) == 0
    assert null.is_symlink()


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "absent"), "-o", str(tmp_path / "page.html")]) == 2
    error = capsys.readouterr().err
    assert "no run folder" in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "page.html").exists()


def test_what_is_left_out_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    arguments = ["--no-pretrained", "--limit", "8", "--exams", "variance", "maps", "--out", str(run)]
    assert main(["diagnose", "vit_mini", *arguments]) == 0
    age(run, "maps", "layers")
    capsys.readouterr()
    assert main(["report", str(run), "-o", str(tmp_path / "page.html")]) == 0
    (note,) = capsys.readouterr().err.strip().splitlines()
    assert note.startswith("note: left out, ")
    assert note.endswith(f"maps of {run}; compute it anew: {COMMAND}")


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys, vitscope.cli.report; assert 'torch' not in sys.modules and 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
