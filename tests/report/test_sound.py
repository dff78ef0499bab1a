"""Results with a right checksum whose contents do not fit together: the error names the file, whatever goes wrong."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vitscope as vs
from tests.forged import forge, set_to
from vitscope.core.errors import BadResult
from vitscope.report.page import render_page
from vitscope.report.sound import make_of_sound
from vitscope.report.subject import RunSubject, find_runs

EMPTY = {"dtype": "int64", "shape": [0], "values": []}
FORGED: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    "units": ("fourier", set_to([], "units")),
    "columns": ("attention", set_to(EMPTY, "head")),
    "bins": ("prediction", set_to(EMPTY, "bin_count")),
    "depth": ("fourier", set_to("-inf", "units", -1, "depth")),
    "whole": ("prediction", set_to(10**30, "n")),
    "number": ("attention", set_to(10**400, "units", 0, "depth")),
    "text": ("fourier", set_to("\ud800", "units", 0, "name")),
    "maps": ("maps", set_to([], "layers")),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_exam_is_named_with_what_to_do(runs: Path, tmp_path: Path, name: str) -> None:
    exam, change = FORGED[name]
    run = Path(shutil.copytree(runs / "vit", tmp_path / "run"))
    path = forge(run, exam, change)
    with pytest.raises(BadResult) as refused:
        vs.report([runs / "resnet", run], tmp_path / "page.html")  # type: ignore[operator]
    assert str(refused.value).startswith(f"{path} is damaged")
    fits = "do not fit together" not in str(refused.value)
    assert fits or f"; remove {path.parent} and repeat: " in str(refused.value)
    assert refused.value.__cause__ is not None
    assert not (tmp_path / "page.html").exists()


def test_a_page_can_be_made_without_it(runs: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs / "vit", tmp_path / "run"))
    forge(run, "fourier", set_to([], "units"))
    page = make_of_sound(find_runs([runs / "resnet", run]), render_page, set_aside=True)
    assert "fourier: exams/fourier/result.json is damaged: its contents do not fit together" in page
    for exam in ("prediction", "attention", "maps", "fourier"):  # the other model has that
        assert f'<section id="{exam}">' in page
    for exam in ("prediction", "attention", "maps"):
        shutil.rmtree(run / "exams" / exam)
    with pytest.raises(BadResult, match="fourier"):  # nothing of the run is left
        make_of_sound(find_runs([runs / "resnet", run]), render_page, set_aside=True)


def test_what_goes_wrong_with_no_single_exam_is_passed_on(runs: Path) -> None:
    def make(subjects: object) -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        make_of_sound(find_runs([runs / "vit"]), make)

    def together(subjects: list[RunSubject]) -> None:
        if len(subjects) > 1 and all("fourier" in one.results for one in subjects):
            raise KeyError("pair")

    with pytest.raises(BadResult, match="fourier"):
        make_of_sound(find_runs([runs / "resnet", runs / "vit"]), together)  # type: ignore[arg-type]


def test_names_that_are_no_text_do_not_keep_a_page_from_being_written(runs: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs / "vit", tmp_path / "run"))
    record = (run / "run.json").read_text()
    assert '"vit_mini"' in record
    (run / "run.json").write_text(record.replace('"vit_mini"', '"vit \\ud800"'))
    page = vs.report(run, tmp_path / "page.html")  # type: ignore[operator]
    assert "vit ?" in page.read_text()
