"""Links in a stranger's run folder: nothing outside of it is written."""

import os
from pathlib import Path

import pytest

import vitscope as vs
from tests.fuzz.refusals import files_below
from vitscope.core.errors import BadResult
from vitscope.results import Run
from vitscope.results.plain_files import refuse_outside_links


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "outside" / "folder").mkdir(parents=True)
    (tmp_path / "outside" / "file.json").write_text("mine")
    os.mkfifo(tmp_path / "outside" / "pipe")
    with Run.start(tmp_path / "run"):
        pass
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("link", "to"),
    [
        ("figures", "folder"),
        ("exams", "folder"),
        ("exams/fourier", "folder"),
        ("parts", "folder"),
        ("checkpoints", "absent"),
        ("metrics.csv", "pipe"),
        ("report.html", "absent.html"),
        (".lock", "file.json"),
        (".lock", "absent.lock"),
        ("exams/x/.lock", "file.json"),
    ],
)
def test_nothing_is_written_through_a_link_that_leads_out(run: Path, link: str, to: str) -> None:
    (run / link).parent.mkdir(parents=True, exist_ok=True)
    (run / link).unlink(missing_ok=True)
    os.symlink(run.parent / "outside" / to, run / link)
    before = files_below(run.parent / "outside")
    with pytest.raises(
        BadResult, match=r"is a link that leads out of the run folder, to .*; nothing is written"
    ):
        vs.diagnose("vit_mini", "fashion", ["fourier"], limit=2, out=run)
    assert files_below(run.parent / "outside") == before


@pytest.mark.parametrize("name", ["exams/fourier/result.json", "model.safetensors", "figures/fourier.png"])
def test_nothing_is_written_into_a_pipe_of_a_run_folder(run: Path, name: str) -> None:
    """That would wait for a reader, who never comes."""
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(run / name)
    with pytest.raises(BadResult, match=rf"{name} is a pipe, not a file; remove it"):
        vs.diagnose("vit_mini", "fashion", ["fourier"], limit=2, out=run)
    with pytest.raises(BadResult, match=rf"{name} is a pipe, not a file; remove it"):
        vs.train("vit_mini", "fashion", recipe="mini", epochs=1, fraction=0.002, out=run, resume=True)


def test_a_link_to_a_file_is_replaced_and_the_file_stays(run: Path) -> None:
    outside = run.parent / "outside" / "file.json"
    (run / "exams" / "fourier").mkdir(parents=True)
    links = [run / "exams/fourier/result.json", run / "exams/fourier/fourier.csv", run / "last.safetensors"]
    for link in links:
        os.symlink(outside, link)
    with pytest.warns(UserWarning, match="damaged"):
        vs.diagnose("vit_mini", "fashion", ["fourier"], limit=2, out=run)
    assert outside.read_text() == "mine"
    assert [link.is_symlink() for link in links] == [False, False, True]
    assert list(Run.open(run).results()) == ["fourier"]


def test_links_that_stay_inside_and_a_linked_run_folder_are_nobodys_business(run: Path) -> None:
    (run / "elsewhere").mkdir()
    os.symlink(run / "elsewhere", run / "figures")
    os.symlink(run, run.parent / "latest")
    refuse_outside_links(run.parent / "latest")
    with Run.start(run.parent / "latest"):
        pass
