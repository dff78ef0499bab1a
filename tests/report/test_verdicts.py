import io
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

import vitscope as vs
from vitscope.claims import verdict_table
from vitscope.core.errors import VitscopeError
from vitscope.report.console import print_verdicts
from vitscope.report.subject import find_runs
from vitscope.report.verdicts import all_verdicts, by_chance, markdown, single_verdicts, write_verdicts


def test_all_verdicts_are_those_of_each_model(runs: Path) -> None:
    subjects = find_runs([runs])
    expected = [v for s in subjects for v in single_verdicts(s.name, s.results)]
    assert {v.model for v in expected} == {"resnet_mini", "vit_mini"}
    # The papers say nothing about these two beside each other.
    pd.testing.assert_frame_equal(verdict_table(all_verdicts(subjects)), verdict_table(expected))


def test_files_hold_all_numbers(runs: Path, tmp_path: Path) -> None:
    verdicts = all_verdicts(find_runs([runs]))
    for name in ("v.csv", "v.json"):
        write_verdicts(verdicts, tmp_path / name)
    table = verdict_table(verdicts)
    read = pd.read_csv(tmp_path / "v.csv", keep_default_na=False, na_values={"low": "", "high": ""})
    pd.testing.assert_frame_equal(read, table, check_dtype=False)
    rows = json.loads((tmp_path / "v.json").read_text())
    assert [row["verdict"] for row in rows] == [v.judgement for v in verdicts]
    assert rows[0].keys() == set(table.columns)
    without = [row for row in rows if row["low"] is None]
    assert [row["claim"] for row in without] == ["D4"]  # a single batch
    with pytest.raises(VitscopeError, match=r"\.csv, \.json or \.md"):
        write_verdicts(verdicts, tmp_path / "v.xlsx")


def test_markdown_has_a_row_per_claim_and_its_rule(runs: Path) -> None:
    verdicts = all_verdicts(find_runs([runs]))
    text = markdown(verdicts)
    assert text == markdown(all_verdicts(find_runs([runs])))
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows[0] == "| claim | `resnet_mini` | `vit_mini` |"
    assert len(rows) - 1 == len({v.statement for v in verdicts})
    for verdict in verdicts:
        (row,) = [line for line in rows if f": {verdict.statement} |" in line]
        assert f"**{verdict.judgement}**, {verdict.found}" in row
        assert f"{verdict.statement}: {verdict.decided_by}." in text


def test_report_writes_them_beside_the_page(runs: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs / "vit", tmp_path / "vit"))
    for exam in ("fourier", "maps", "prediction"):
        shutil.rmtree(run / "exams" / exam)
    vs.report([run], tmp_path / "page.html", verdicts=tmp_path / "verdicts.md")
    assert (tmp_path / "verdicts.md").read_text() == markdown(all_verdicts(find_runs([run])))


def test_many_verdicts_come_with_a_word_about_chance() -> None:
    assert by_chance(4) == ""
    assert by_chance(20).startswith("20 verdicts, each at 95 %")
    assert "one in twenty" in by_chance(20)


def test_the_console_shows_number_and_rule_beside_each_verdict(runs: Path) -> None:
    verdicts = all_verdicts(find_runs([runs]))
    console = Console(file=io.StringIO(), width=400)
    print_verdicts(verdicts, console)
    assert isinstance(console.file, io.StringIO)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    for verdict in verdicts:
        start = lines.index(f"{verdict.claim} {verdict.statement}")
        assert lines[start + 1] == verdict.decided_by
        told = f"{verdict.model} {verdict.judgement} {verdict.found}"
        told += f"; {verdict.reach}" if verdict.reach else ""  # a full stop after a number would belong to it
        assert told in lines[start + 2 :]
    assert lines[-1] == by_chance(len(verdicts))
