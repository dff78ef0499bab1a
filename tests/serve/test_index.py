from pathlib import Path

import pytest

from tests.serve.conftest import epoch
from vitscope.results import Run
from vitscope.serve.index import Index, fingerprint, training_rows


def test_every_run_below_the_folder_and_no_other(runs: Path) -> None:
    found = {entry.path: entry for entry in Index(runs).entries()}
    assert set(found) == {"a/exam", "train", "broken"}
    exam = found["a/exam"]
    assert (exam.name, exam.model, exam.data, exam.state) == ("exam", "<b>net</b>", "fashion (test)", "done")
    result = (
        Run.open(runs / "a" / "exam").results()["prediction"].table().set_index("quantity").loc["accuracy"]
    )
    assert [exam.accuracy, exam.low, exam.high] == pytest.approx([result.value, result.low, result.high])
    train = found["train"]
    assert (train.model, train.data, train.epochs, train.exams) == ("vit_mini", "fashion", 1, 0)
    assert (train.accuracy, train.low, train.high) == (0.51, 0.4, 0.6)
    assert found["broken"].state == "damaged"


def test_a_training_is_followed(runs: Path) -> None:
    index = Index(runs)
    with Run.start(runs / "live", options={"data": "fashion"}):
        assert index.entry(runs / "live").state == "running"
        assert index.entry(runs / "live").accuracy is None
    assert index.entry(runs / "live").state == "done"
    before = fingerprint(runs / "train")
    with open(runs / "train" / "metrics.csv", "a") as file:
        file.write(epoch(2))
    assert fingerprint(runs / "train") != before
    assert index.entry(runs / "train").epochs == 2


def test_a_line_that_is_being_written_does_not_count(runs: Path) -> None:
    with open(runs / "train" / "metrics.csv", "a") as file:
        file.write("2,0.001,1.4")
    assert [row["epoch"] for row in training_rows(runs / "train")] == ["1"]
    assert training_rows(runs / "broken") == []


def test_only_runs_are_found(runs: Path) -> None:
    index = Index(runs)
    assert index.find("a/exam") == (runs / "a" / "exam").resolve()
    for path in ("a", "", ".", "linked", "leaking", "../outside", "absent"):
        assert index.find(path) is None


def test_the_folder_can_be_a_run_itself(runs: Path) -> None:
    index = Index(runs / "train")
    assert [entry.path for entry in index.entries()] == ["."]
    assert index.find(".") == (runs / "train").resolve()
