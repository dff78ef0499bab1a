import os
from pathlib import Path

import pytest

from vitscope.serve.access import below


def test_what_lies_below(runs: Path) -> None:
    assert below(runs, "a/exam/run.json") == (runs / "a" / "exam" / "run.json").resolve()
    assert below(runs, "a//exam/") == (runs / "a" / "exam").resolve()
    assert below(runs, "") == runs.resolve()
    os.symlink(runs / "a", runs / "inner")
    assert below(runs, "inner/exam") == (runs / "a" / "exam").resolve()  # a link that stays inside


@pytest.mark.parametrize(
    "asked",
    [
        "../outside/secret.csv",
        "a/../../outside/secret.csv",
        "a/exam/..",
        "secret.csv",
        "linked/secret.csv",
        "a/exam/.lock",
        "absent",
        "..\\outside\\secret.csv",
        "a\0b",
        "a/exam/run.json/more",
    ],
)
def test_what_does_not(runs: Path, asked: str) -> None:
    (runs / "a" / "exam" / ".lock").touch()
    assert below(runs, asked) is None


def test_an_absolute_path_is_taken_from_the_folder(runs: Path) -> None:
    assert below(runs, str(runs.parent / "outside" / "secret.csv")) is None
    assert below(runs, "/a/exam") == (runs / "a" / "exam").resolve()


def test_a_circle_of_links_is_nowhere(runs: Path) -> None:
    os.symlink(runs / "two", runs / "one")
    os.symlink(runs / "one", runs / "two")
    assert below(runs, "one") is None


def test_a_neighbour_whose_name_begins_alike_is_outside(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs2").mkdir()
    os.symlink(tmp_path / "runs2", tmp_path / "runs" / "link")
    assert below(tmp_path / "runs", "link") is None
