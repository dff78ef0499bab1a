from pathlib import Path

import pytest

from tests.serve.conftest import HEADER, epoch
from vitscope.results import Run
from vitscope.serve.index import Index, fingerprint, training_rows
from vitscope.serve.pages import percent


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


def test_the_score_is_that_of_the_task(runs: Path) -> None:
    heads, row = HEADER.strip() + ",miou,miou_low,miou_high\n", epoch(1).strip() + ",0.38,0.32,0.43\n"
    (runs / "train" / "metrics.csv").write_text(heads + row)
    entry = Index(runs).entry(runs / "train")
    assert (entry.score, entry.accuracy, entry.low, entry.high) == ("mIoU", 0.38, 0.32, 0.43)
    assert percent(entry) == "mIoU 38.0 % [32.0, 43.0]"
    folder = runs / "train" / "exams" / "segmentation"
    folder.mkdir(parents=True)
    (folder / "segmentation.csv").write_text("quantity,value,low,high\nmiou,0.4,0.3,0.5\n")
    assert Index(runs).entry(runs / "train").accuracy == 0.4


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
