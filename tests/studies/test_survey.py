import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vitscope as vs
from tests.data.test_folder import fill
from tests.registry import smallest_of_each_module
from vitscope.cli.app import main
from vitscope.cli.survey import _columns, _more
from vitscope.core import pd
from vitscope.core.errors import BadArgument, VitscopeError
from vitscope.results.study_result import StudyResult
from vitscope.studies.survey import _sizes, find_names, plan_survey, survey

SAMPLE = ["vit_mini", "test_resnet", "test_convnext", "test_efficientnet", "test_nfnet", "test_byobnet"]
BROKEN = "tests.studies.survey_models:breaks"
REQUEST: dict[str, Any] = {"limit": 8, "batch_size": 8, "pretrained": False, "img_size": 32, "engine": "here"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("survey")


@pytest.fixture(scope="module")
def found(place: Path) -> StudyResult:
    with pytest.warns(UserWarning, match="never finished"):
        return survey(
            [*SAMPLE, BROKEN],
            exams=["variance", "attention"],
            out=place / "out",
            store=place / "store",
            **REQUEST,
        )


def test_every_model_is_a_row_and_one_that_fails_says_why(found: StudyResult) -> None:
    wide = found.wide().set_index("arm")
    assert list(wide.index) == [*SAMPLE, BROKEN]
    assert wide.loc[SAMPLE, "note"].isna().all()
    assert "it was never finished" in wide.loc[BROKEN, "note"]
    assert (wide["parameters"] > 0).all()
    assert wide.loc[SAMPLE, "variance.variance"].notna().all()
    assert set(wide.loc[SAMPLE, "weights"]) == {"random"}


def test_numbers_are_those_of_the_model_by_hand(found: StudyResult) -> None:
    from vitscope.recipes.seeding import seed_all

    seed_all(0)
    model = vs.create_model("vit_mini", img_size=32)
    data = vs.load_data("fashion", split="test")
    results = vs.diagnose(model, data, ["variance", "attention"], limit=8, batch_size=8)
    row = found.wide().set_index("arm").loc["vit_mini"]
    assert row["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    table = results["variance"].table()
    own = table[table["quantity"] == "variance"]
    assert row["variance.variance"] == pytest.approx(own["value"].mean(), rel=1e-6)
    kind = table[(table["quantity"] == "change") & table["unit"].isna() & (table["kind"] == "msa")].iloc[0]
    assert row["variance.change[kind=msa]"] == pytest.approx(kind["value"], rel=1e-6)
    assert row["variance.change[kind=msa]_high"] == pytest.approx(kind["high"], rel=1e-6)
    entropy = results["attention"].summary().query("quantity == 'entropy'")["value"].mean()
    assert row["attention.entropy"] == pytest.approx(entropy, rel=1e-6)


def test_files_are_there(found: StudyResult, place: Path) -> None:
    kept = pd.read_csv(place / "out" / "models.csv")
    assert kept["arm"].tolist() == [*SAMPLE, BROKEN]
    np.testing.assert_allclose(kept["variance.variance"], found.wide()["variance.variance"])
    assert found.page == place / "out" / "atlas.html"
    text = found.page.read_text()
    assert "All models are as" in " ".join(text.split())  # of random weights
    assert "it was never finished" in text
    assert StudyResult.load(place / "out").wide().shape == found.wide().shape


def test_a_model_is_examined_once_for_all_surveys(
    found: StudyResult, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in (place / "store").rglob("result.json")}
    words = ["survey", "vit_min[i]", "test_nfnet", "--exams", "variance", "--limit", "8", "--batch-size", "8"]
    words += ["--no-pretrained", "--img-size", "32", "--engine", "here"]
    assert main([*words, "--store", str(place / "store"), "--out", str(place / "again")]) == 0
    after = {path: path.stat().st_mtime_ns for path in (place / "store").rglob("result.json")}
    assert after == before
    said = capsys.readouterr().out
    assert "vit_mini" in said
    assert "variance: change (msa)" in said
    assert str(place / "again" / "atlas.html") in said


def test_a_twin_for_small_images_is_told(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["survey", "resnet18", BROKEN, "--exams", "variance", "--limit", "4", "--no-pretrained"]
    words += ["--img-size", "32", "--engine", "here", "--store", str(place / "store")]
    assert main([*words, "--out", str(place / "twin")]) == 0
    said = capsys.readouterr()
    assert "resnet18 (as resnet18_32)" in said.out
    assert said.err.count("note: resnet18 at 32 pixels is built as resnet18_32") == 1
    assert said.err.count("it was never finished") == 1
    assert StudyResult.load(place / "twin").wide()["built"].tolist() == ["resnet18_32", None]


def test_sizes_are_those_of_the_model_that_is_examined() -> None:
    own, twin = (
        _sizes(plan_survey(["resnet18"], "fashion", ["variance"], arguments=given).arms[0])["parameters"]
        for given in ({"img_size": 32}, {"img_size": 32, "pretrained": False})
    )
    assert own == 11_689_512  # with a 7x7 stem
    assert own - twin == 64 * 3 * (7 * 7 - 3 * 3)


def test_the_console_has_a_number_of_every_model() -> None:
    wide = pd.DataFrame({"arm": ["vit", "cnn", "none"], "parameters": [1, 2, 3], "flops": [1, 2, 3]})
    for kind, row in (("msa", 0), ("mlp", 0), ("conv", 1)):
        for exam in ("fourier", "variance"):
            wide[f"{exam}.change[kind={kind}]"] = [0.1 if row == at else np.nan for at in range(3)]
    columns = [f"fourier.change[kind={kind}]" for kind in ("msa", "conv")]
    others = [f"variance.change[kind={kind}]" for kind in ("msa", "conv")]
    assert set(_columns(wide)) == {"parameters", "flops", *columns, *others}
    assert _more(wide) == 2  # those of MLPs are in the file alone


def test_patterns_stand_for_names() -> None:
    assert find_names(["vit_min*", "resnet_mini", "vit_mini"]) == ["vit_mini", "resnet_mini"]
    assert find_names(["tv:resnet1?"]) == ["tv:resnet18"]
    with pytest.raises(BadArgument, match=r"no model matches 'resnot\*'; did you mean"):
        find_names(["resnot*"])
    with pytest.raises(BadArgument, match="no model was named"):
        find_names([])


def test_it_is_a_study_of_models_that_are_not_trained() -> None:
    study = plan_survey(["vit_mini", "resnet_mini"], "fashion", ["variance", "variance"], limit=5)
    assert [(arm.name, arm.train, arm.seeds) for arm in study.arms] == [
        ("vit_mini", False, (0,)),
        ("resnet_mini", False, (0,)),
    ]
    assert [(look.exam, look.limit) for look in study.looks] == [("variance", 5)]
    with pytest.raises(BadArgument, match="options are given for hessian"):
        plan_survey(["vit_mini"], "fashion", ["variance"], options={"hessian": {"batches": 2}})


def test_what_cannot_work_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    for models, more, said in (
        (["vit_minni"], {}, "no model 'vit_minni'"),
        (["vit_mini"], {"exams": ["furier"]}, "no exam 'furier'"),
        (["vit_mini"], {"data": "folder:/no/where"}, "no/where"),
    ):
        with pytest.raises(VitscopeError, match=said):
            survey(models, **{**REQUEST, **more}, out=tmp_path / "out", store=tmp_path / "store")
    assert not list(tmp_path.iterdir())


def test_a_survey_in_which_everything_fails_ends_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(VitscopeError, match=r"none of 1 models could be examined; .*never finished"):
        survey(BROKEN, exams=["variance"], out=tmp_path / "out", store=tmp_path / "store", **REQUEST)
    assert (tmp_path / "out" / "atlas.html").exists()


@pytest.mark.slow
def test_one_model_of_every_module_of_timm(tmp_path: Path) -> None:
    """With random weights, at 64 pixels; those that do not take such small images say so."""
    meta = pd.read_csv(Path(__file__).parents[2] / "docs" / "coverage_meta.csv")
    names = smallest_of_each_module(meta[meta["parameters"] < 300e6])
    request = {**REQUEST, "limit": 4, "batch_size": 4, "img_size": 64, "progress": False}
    found = survey(names, exams=["variance"], out=tmp_path / "out", store=tmp_path / "store", **request)
    wide = found.wide().set_index("arm")
    failed = wide["note"].dropna()
    assert list(wide.index) == names
    assert len(failed) <= 0.1 * len(names), failed.to_string()
    assert failed.str.len().gt(10).all()
    known = wide.drop(failed.index)["variance.variance"]
    assert known.notna().mean() > 0.9, known[known.isna()]
    assert all(math.isfinite(value) for value in known.dropna())
    assert torch.is_grad_enabled()


def test_outputs_that_are_not_the_classes_are_told_of(tmp_path: Path) -> None:
    fill(tmp_path / "photos", {"a": 4, "b": 4})
    with pytest.warns(UserWarning, match="vit_mini: the model has 10 outputs, the data 2 classes"):
        survey(
            "vit_mini",
            f"folder:{tmp_path / 'photos'}",
            ["prediction"],
            out=tmp_path / "out",
            store=tmp_path / "store",
            **REQUEST,
        )
    page = (tmp_path / "out" / "atlas.html").read_text()
    assert "<strong>vit_mini.</strong> the model has 10 outputs, the data 2 classes" in page
