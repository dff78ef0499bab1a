"""The demo as a new user runs it."""

import json
import re

from tests.processes import Done, run


def vitscope(*arguments: str) -> Done:
    return run("-m", "vitscope.cli.app", *arguments)


FEW = ("--exams", "variance", "prediction")


def test_demo_examines_the_models_once_and_writes_the_page(tmp_path):
    arguments = ("demo", "--out", str(tmp_path / "demo"), "--limit", "60", *FEW)
    done = vitscope(*arguments)
    assert done.returncode == 0, done.stderr
    for line in (
        "accuracy",
        "MSAs lower spatial variance",
        "Convs raise spatial variance",
        "vitscope diagnose MODEL",
    ):
        assert line in done.stdout
    assert re.search(r"(holds|does not hold|inconclusive)", done.stdout)
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "resnet_mini" in page
    assert "vit_mini" in page
    assert "alternet_mini" in page
    assert not re.search(r"(src|href)=\"https?://", page), "the page must open without a network"
    for name in ("resnet_mini", "vit_mini", "alternet_mini"):
        run = json.loads((tmp_path / "demo" / name / "run.json").read_text())
        assert run["state"] == "done"
        assert {p.name for p in (tmp_path / "demo" / name / "exams").iterdir()} >= {"prediction", "variance"}
    written = {p: p.stat().st_mtime_ns for p in tmp_path.glob("demo/*/exams/*/result.json")}
    assert len(written) == 6
    assert not list(tmp_path.glob("demo/*/figures/*"))  # they are on the page
    again = vitscope(*arguments[:-1], "--figures")  # a page of fewer exams
    assert again.returncode == 0
    for name in ("resnet_mini", "vit_mini", "alternet_mini"):
        drawn = {p.name for p in (tmp_path / "demo" / name / "figures").iterdir()}
        assert {"variance.png", "variance.svg"} <= drawn
    assert {p: p.stat().st_mtime_ns for p in written} == written  # what is there is not done again


def test_every_exam_is_in_the_plan():
    from vitscope.cli.demo import Options, _plan
    from vitscope.data import load_data
    from vitscope.exams import EXAMS

    planned = [name for names, _ in _plan(Options(), load_data("fashion", split="test")) for name in names]
    assert sorted([*planned, "temporal", "segmentation", "detection", "answers"]) == sorted(
        EXAMS
    )  # of whole pictures
