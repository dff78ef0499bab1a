import json
import os
import re
import shutil
from pathlib import Path

import pytest

import vitscope as vs
from tests.serve.conftest import HEADER, epoch
from vitscope.report.atlas import render_atlas
from vitscope.results import Run
from vitscope.results.study_result import StudyResult
from vitscope.serve.index import Index, fingerprint, training_rows
from vitscope.serve.pages import Pages, percent

CLAIM = Path(__file__).parents[2] / "reproduction" / "cpu" / "D2"  # the results of a real study


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
    assert percent(entry) == "mIoU 38.0\u00a0% [32.0,\u00a043.0]"
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


def test_a_study_has_its_row_and_a_page_made_of_its_tables(runs: Path) -> None:
    folder = runs / "studies" / "noise"
    shutil.copytree(CLAIM, folder)
    (folder / "study.html").write_text("<script>of a stranger</script>")
    index = Index(runs)
    entry = next(entry for entry in index.entries() if entry.kind == "study")
    assert (entry.path, entry.model, entry.data) == ("studies/noise", "resnet_mini, vit_mini", "cifar10")
    assert (entry.state, entry.exams, entry.epochs, entry.accuracy) == ("done", 1, 0, None)
    assert entry.started.startswith("20")
    page = Pages(index).report(folder)
    assert "a ResNet falls more under high frequencies" in page
    assert "of a stranger" not in page
    assert index.find("studies/noise") == folder.resolve()


def _undated(page: str) -> str:
    return re.sub(r"20\d\d-\d\d-\d\d[T ][\d:]+Z?", "", page)


def test_a_survey_has_its_atlas(runs: Path) -> None:
    folder = runs / "survey"
    shutil.copytree(CLAIM, folder)
    (folder / "atlas.html").touch()
    page = Pages(Index(runs)).report(folder)
    without_bar = re.sub(r"(<body[^>]*>)<p .*?</p>", r"\1", page, count=1)
    assert _undated(without_bar) == _undated(render_atlas(StudyResult.load(folder)))


def test_a_study_that_is_not_complete_or_damaged_says_so(runs: Path) -> None:
    folder = runs / "noise"
    shutil.copytree(CLAIM, folder)
    content = json.loads((folder / "study.json").read_text())
    (folder / "study.json").write_text(json.dumps({**content, "missing": ["arm vit, seed 1"]}))
    entry = Index(runs).entry(folder)
    assert (entry.state, entry.trouble) == ("interrupted", "not complete: 1 of its parts are missing")
    (folder / "study.json").write_text(json.dumps({**content, "study": 3}))
    entry = Index(runs).entry(folder)
    assert entry.state == "damaged"
    assert "study.json is damaged" in entry.trouble
    assert "study.json is damaged" in Pages(Index(runs)).training(folder)


def test_a_study_that_reads_from_outside_is_not_shown(runs: Path, tmp_path: Path) -> None:
    folder = runs / "noise"
    folder.mkdir()
    (tmp_path / "outside" / "study.json").write_text((CLAIM / "study.json").read_text())
    os.symlink(tmp_path / "outside" / "study.json", folder / "study.json")
    assert Index(runs).find("noise") is None


def test_random_weights_are_marked(runs: Path) -> None:
    assert Index(runs).entry(runs / "a" / "exam").random_weights
    assert not Index(runs).entry(runs / "train").random_weights
    assert "random weights" in Pages(Index(runs)).front()


def test_a_survey_that_ended_with_failures_is_done_and_names_them(runs: Path) -> None:
    folder = runs / "noise"
    shutil.copytree(CLAIM, folder)
    content = json.loads((folder / "study.json").read_text())
    failed = content["tables"]["arms"][0]
    failed["note"] = "no network"
    content["missing"] = [f"{failed['arm']}, seed 0: no fourier"]
    (folder / "study.json").write_text(json.dumps(content))
    entry = Index(runs).entry(folder)
    assert (entry.state, entry.trouble) == ("done", f"failed: {failed['arm']}")
    content["missing"].append("another arm, seed 0: no fourier")
    (folder / "study.json").write_text(json.dumps(content))
    entry = Index(runs).entry(folder)
    assert entry.state == "interrupted"
    assert entry.trouble == f"not complete: 1 of its parts are missing; failed: {failed['arm']}"


def test_an_operated_model_names_its_operations(tmp_path: Path) -> None:
    vs.operate("vit_mini", "broadcast_context", out=tmp_path / "first")
    vs.operate(str(tmp_path / "first"), {"localize": {}}, out=tmp_path / "second")
    pages = Pages(Index(tmp_path))
    entries = [pages.index.entry(tmp_path / name) for name in ("first", "second")]
    assert entries[0].model == "vit_mini + broadcast_context"
    assert entries[1].model.endswith("first + localize")
    page = pages.training(tmp_path / "first")
    assert "vit_mini + broadcast_context" in page
    assert "<span hidden>,\n    finished epochs" in page
