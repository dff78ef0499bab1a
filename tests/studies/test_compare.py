import shutil
from pathlib import Path

import pytest

import vitscope as vs
from vitscope.core.errors import VitscopeError
from vitscope.results import Result, Run
from vitscope.studies.compare import compare


def test_a_name_is_examined_as_the_run_beside_it_was(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vit", tmp_path / "vit")
    for exam in ("fourier", "attention", "maps"):
        shutil.rmtree(tmp_path / "vit" / "exams" / exam)
    run = Run.open(tmp_path / "vit")
    run.note(options={**run.record["options"], "exams": ["prediction"]})
    page = vs.compare(tmp_path / "vit", "resnet_mini", out=tmp_path / "out")
    assert page == tmp_path / "out" / "report.html"
    made = Result.load(tmp_path / "out" / "resnet_mini" / "exams" / "prediction")
    given = run.results()["prediction"]
    assert (made.data, made.n, made.seed) == (given.data, given.n, given.seed)
    assert [p.name for p in (tmp_path / "out" / "resnet_mini" / "exams").iterdir()] == ["prediction"]
    assert "resnet_mini minus" in " ".join(page.read_text().replace("</span>", " ").split())
    written = (tmp_path / "out" / "resnet_mini" / "run.json").stat().st_mtime_ns
    assert (
        compare(tmp_path / "vit", tmp_path / "out" / "resnet_mini", page=tmp_path / "b.html")
        == tmp_path / "b.html"
    )
    assert (
        tmp_path / "out" / "resnet_mini" / "run.json"
    ).stat().st_mtime_ns == written  # nothing was done again


def test_a_run_on_unnamed_data_says_what_to_type(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vit", tmp_path / "vit")
    run = Run.open(tmp_path / "vit")
    run.note(options={**run.record["options"], "data": "tensors"})
    with pytest.raises(VitscopeError, match="--data NAME"):
        compare(tmp_path / "vit", "resnet_mini", out=tmp_path / "out")
    run.note(options={"something": "else"})
    with pytest.raises(VitscopeError, match="does not say how it was examined"):
        compare("resnet_mini", tmp_path / "vit", out=tmp_path / "out")
