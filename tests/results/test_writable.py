"""What cannot be written is known before the work for it begins."""

from pathlib import Path

import pytest

from tests.fuzz.refusals import files_below
from vitscope.cli.app import main
from vitscope.core.errors import VitscopeError
from vitscope.results import Run
from vitscope.results.plain_files import check_file, probe


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "taken" / "report.html").mkdir(parents=True)
    with Run.start(tmp_path / "run"):
        pass
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "vit_mini", "resnet_mini", "--page", "{}/file/page.html"], "is a file, not a folder"),
        (["compare", "vit_mini", "resnet_mini", "-o", "{}/folder.html"], "is a folder; expected a file"),
        (
            ["compare", "vit_mini", "resnet_mini", "--page", "/proc/page.html"],
            "cannot use /proc: this user may not",
        ),
        (["compare", "vit_mini", "resnet_mini", "--out", "{}/taken"], "report.html is a folder"),
        (["demo", "--out", "{}/taken"], "report.html is a folder"),
        (["demo", "--out", "{}/file"], "is a file, not a folder"),
        (["report", "{}/run", "-o", "{}/file/page.html"], "is a file, not a folder"),
        (["report", "{}/run", "-o", "{}/folder.html"], "is a folder; expected a file"),
        (["report", "{}/run", "-o", "{}/run/run.json"], "is something else, which is not overwritten"),
        (
            ["report", "{}/run", "--verdicts", "{}/run/run.json"],
            "is something else, which is not overwritten",
        ),
        (["compare", "vit_mini", "resnet_mini", "--page", "{}/run/run.json"], "which is not overwritten"),
        (["report", "{}/run", "--verdicts", "{}/v.txt"], "name a file that ends in .csv, .json or .md"),
        (["report", "{}/run", "--verdicts", "{}/file/v.csv"], "is a file, not a folder"),
        (["prescribe", "{}/run", "--apply", "--epochs", "1", "--out", "{}/taken"], "report.html is a folder"),
        (["operate", "vit_mini", "--mc-dropout", "--out", "{}/file/run"], "is a file, not a folder"),
        (["diagnose", "vit_mini", "--out", "{}/file/run"], "is a file, not a folder"),
        (["evaluate", "vit_mini", "--exams", "prediction", "--out", "{}/file"], "is a file; give a folder"),
    ],
)
def test_it_is_said_before_a_model_is_shown_anything(
    words: list[str],
    message: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place)
    before = files_below(place)
    assert main([word.format(place) for word in words]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert len(shown.err.splitlines()) == 1  # no bar of a pass
    assert files_below(place) == before


def test_what_can_be_written_is_left_as_it_was(place: Path) -> None:
    before = files_below(place)
    for path in (place / "new.html", place / "a" / "b" / "new.html", place / "file", Path("/dev/null")):
        check_file(path)
    probe(place / "a" / "b")
    with pytest.raises(VitscopeError, match="is a folder"):
        check_file(place)
    assert files_below(place) == before
