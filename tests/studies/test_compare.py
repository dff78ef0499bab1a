import shutil
from pathlib import Path
from typing import Any

import pytest

import vitscope as vs
from tests.data.test_folder import fill
from vitscope.core.errors import VitscopeError
from vitscope.data import load_data
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


def photos(folder: Path, each: int = 4) -> str:
    """Two classes of pictures that are not all alike."""
    fill(folder, {"a": each, "b": each})
    return f"folder:{folder}"


def examined(out: Path, data: str, *exams: str, model: str = "resnet_mini", **request: Any) -> Path:
    vs.diagnose(model, load_data(data, split="test"), exams, out=out, **request)
    return out


def test_chosen_exams_are_done_on_the_images_of_the_run(tmp_path: Path) -> None:
    """With its limit and its seed; of an exam that the run has, with its options, too."""
    run = examined(tmp_path / "run", photos(tmp_path / "photos"), "prediction", "variance", limit=6, seed=2)
    vs.compare(run, "vit_mini", exams=["prediction", "fourier"], out=tmp_path / "out")
    made = Run.open(tmp_path / "out" / "vit_mini")
    given = Run.open(run).results()["prediction"]
    assert {(one.data, one.n, one.seed) for one in made.results().values()} == {(given.data, 6, 2)}
    assert list(made.results()) == ["fourier", "prediction"]
    with pytest.raises(VitscopeError, match="--limit"):
        vs.compare(run, "vit_mini", exams=["prediction"], limit=4, out=tmp_path / "out")


def test_data_is_named_and_the_exams_are_those_of_the_run(tmp_path: Path) -> None:
    data = photos(tmp_path / "photos")
    run = examined(tmp_path / "run", data, "variance")
    vs.compare(run, "vit_mini", data=data, out=tmp_path / "out")
    assert list(Run.open(tmp_path / "out" / "vit_mini").results()) == ["variance"]


def test_only_what_the_results_were_made_of_is_opened(tmp_path: Path) -> None:
    run = examined(tmp_path / "run", photos(tmp_path / "gone"), "variance", "prediction")
    examined(run, photos(tmp_path / "photos"), "prediction", "variance")
    shutil.rmtree(tmp_path / "gone")
    vs.compare("vit_mini", run, out=tmp_path / "out")
    made = Run.open(tmp_path / "out" / "vit_mini").results()
    assert {one.data for one in made.values()} == {f"folder:{tmp_path / 'photos'} (test)"}


def test_broken_images_that_the_run_passed_over_are_passed_over(tmp_path: Path, capsys: Any) -> None:
    data = photos(tmp_path / "photos")
    (tmp_path / "photos" / "a" / "1.png").write_bytes(b"no picture")
    whole = load_data(data, split="test", skip_broken=True)
    vs.diagnose("resnet_mini", whole, ["variance"], out=tmp_path / "run")
    vs.diagnose("resnet_mini", whole, ["prediction"], limit=5, out=tmp_path / "run")
    capsys.readouterr()
    vs.compare(tmp_path / "run", "vit_mini", out=tmp_path / "out")
    assert {one.n for one in Run.open(tmp_path / "out" / "vit_mini").results().values()} == {5, 7}
    assert capsys.readouterr().err.count("1.png") == 1


def test_runs_on_other_images_are_not_compared(tmp_path: Path) -> None:
    data = photos(tmp_path / "photos")
    one = examined(tmp_path / "one", data, "variance", "prediction", limit=6)
    other = examined(tmp_path / "other", data, "variance", "prediction", limit=4, model="vit_mini")
    with pytest.raises(VitscopeError, match="n is 6 and 4"):
        vs.compare(one, other, page=tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
    examined(other, data, "prediction", limit=6, model="vit_mini")
    with pytest.warns(UserWarning, match="variance is left out of the differences: .* n is 6 and 4"):
        vs.compare(one, other, page=tmp_path / "page.html")
    assert "McNemar" in (tmp_path / "page.html").read_text()
