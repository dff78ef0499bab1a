import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import vitscope as vs
from tests.data.test_folder import fill
from tests.pictures import few_pictures
from tests.prescribe.conftest import with_negative
from vitscope.core.errors import VitscopeError
from vitscope.prescribe import Prescription, Prescriptions, Treatment, apply
from vitscope.prescribe.apply import choose
from vitscope.prescribe.examined_model import find_examined_model
from vitscope.results import Result, Run
from vitscope.surgery import Comparison

COST = Comparison((1, 1), (1, 1), 0.0, 1.0)


def rule(name: str, state: str, **more: object) -> Prescription:
    fields = {"operation": name, "cost": COST, **more}
    return Prescription(name, "C", "p", state, f"why {name}", "c", **fields)  # type: ignore[arg-type]


def names(rules: list[Prescription], *only: str) -> list[str]:
    return [p.rule for p in choose(Prescriptions("m", "run", tuple(rules)), only)]


def test_prescribed_ones_are_applied_without_their_alternatives() -> None:
    pool, local = rule("pool", "prescribed"), rule("local", "prescribed", instead_of="pool")
    advice = rule("advice", "prescribed", operation=None, cost=None)
    other = rule("other", "not needed")
    assert names([pool, local, advice, other]) == ["pool"]
    assert names([local, other]) == ["local"]
    assert names([pool, local, other], "local", "other") == ["local", "other"]


def test_nothing_to_apply_is_said_in_one_line() -> None:
    impossible = rule("local", "impossible", cost=None)
    with pytest.raises(VitscopeError, match="--only other"):
        names([impossible, rule("other", "not needed")])
    advice = rule("advice", "prescribed", operation=None, cost=None)
    with pytest.raises(VitscopeError, match=r"\(advice is: why advice\); --only other"):
        names([impossible, advice, rule("other", "not needed")])
    with pytest.raises(VitscopeError, match="why local"):
        names([impossible], "local")
    with pytest.raises(VitscopeError, match="there are: local"):
        names([impossible], "unheard")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"only": ["localise"]}, "no rule 'localise'; did you mean localize?"),
        ({"recipe": "minni"}, "no recipe 'minni'"),
        ({"data": "fasion"}, "no data set 'fasion'"),
    ],
)
def test_names_are_checked_before_the_rules_look(words: dict[str, Any], said: str, diagnosed: Path) -> None:
    told: list[Prescriptions] = []
    with pytest.raises(VitscopeError, match=re.escape(said)):
        apply(diagnosed / "vit_mini", 1, told=told.append, **words)
    assert not told


def test_spectra_are_compared_over_the_same_batches(tmp_path: Path) -> None:
    """Five negative of ten against two of ten in every batch: three tenths, whichever batches are drawn."""
    arms = {
        "after": with_negative(tmp_path / "after", 5, 5),
        "control": with_negative(tmp_path / "control", 2, 8),
    }
    results = {arm: {"hessian": Result.load(run / "exams" / "hessian")} for arm, run in arms.items()}
    rows = Treatment(tmp_path, (), results, {}, "").differences().set_index("quantity")
    value, low, high = rows.loc["nep", ["value", "low", "high"]]
    assert value == pytest.approx(0.3)
    assert 0.2 < low < value < high < 0.4  # forty batches that all agree do not make it certain
    assert rows.loc["ape", ["value", "low", "high"]].tolist() == pytest.approx([0.0, 0.0, 0.0])
    assert rows.loc["nep", "n"] == 640
    one = {
        arm: {"hessian": replace(found["hessian"], eigenvalues=found["hessian"].eigenvalues[:1])}  # type: ignore[attr-defined]
        for arm, found in results.items()
    }
    rows = Treatment(tmp_path, (), one, {}, "").differences()  # type: ignore[arg-type]
    assert rows["value"].notna().all()
    assert rows["low"].isna().all()  # a single batch says nothing about others


@pytest.fixture
def pictures(tmp_path: Path) -> str:
    return few_pictures(tmp_path / "pictures", train=8, test=3)


def test_before_control_and_after(pictures: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    vs.diagnose("resnet_mini", vs.load_data(pictures, split="test"), ["prediction"], out=run)
    budget = {"epochs": 1, "only": ["smooth"], "progress": False}
    done = apply(run, **budget)  # type: ignore[arg-type]
    assert done.path == tmp_path / "run-treated"
    assert [p.rule for p in done.applied] == ["smooth"]
    assert done.budget.startswith("1 epoch of folder:")
    original = vs.create_model("resnet_mini", pretrained=True)
    control, after = (vs.create_model(done.path / arm) for arm in ("control", "after"))
    assert vs.surgery.record(control) == []
    assert [entry["operation"] for entry in vs.surgery.record(after)] == ["smooth"]
    start = dict(original.named_parameters())
    assert not any(
        torch.equal(value, start[name]) for name, value in control.named_parameters()
    )  # trained, too
    settings = [
        json.loads((done.path / arm / "last.json").read_text())["setting"] for arm in ("control", "after")
    ]
    for key in ("recipe", "images", "seed", "fraction"):  # for the same budget
        assert settings[0][key] == settings[1][key]
    found = [done.results[arm]["prediction"] for arm in ("before", "control", "after")]
    assert [result.n for result in found] == [30, 30, 30]
    assert found[0].model == "resnet_mini"  # taken over from the run, not measured again
    rows = done.differences().set_index("quantity")
    assert rows.loc["accuracy", "value"] == pytest.approx(found[2].accuracy - found[1].accuracy)  # type: ignore[attr-defined]
    page = done.page.read_text()
    for name in ("resnet_mini, before", "resnet_mini, trained further", "resnet_mini + smooth"):
        assert name in page

    weights = done.path / "after" / "model.safetensors"
    written = weights.stat().st_mtime_ns
    again = apply(run, **budget)  # type: ignore[arg-type]
    assert weights.stat().st_mtime_ns == written  # nothing is trained twice
    assert again.differences().equals(done.differences())
    with pytest.raises(VitscopeError, match="cannot go on"):
        apply(run, **{**budget, "epochs": 2})  # type: ignore[arg-type]


def test_exams_keep_the_images_and_options_of_the_run(tmp_path: Path) -> None:
    """Of images that nobody has divided, those that a training holds out; of the spectrum one batch."""
    fill(tmp_path / "photos", {name: 20 for name in "abcd"})
    data = f"folder:{tmp_path / 'photos'}"
    held_out = vs.load_data(data, split="held-out")
    run = tmp_path / "run"
    own = {"hessian": {"batches": 1, "k": 1}}
    vs.diagnose("resnet_mini", held_out, ["prediction", "hessian"], limit=16, out=run, options=own)
    more = find_examined_model(Run.open(run)).command(("lesion",))
    assert f"--data {data} --split held-out --limit 16 --exams lesion" in more
    done = apply(run, 1, only=["smooth"], progress=False)
    for found in done.results.values():
        assert found["prediction"].n == 16
        assert found["hessian"].n == 16
    assert done.results["before"]["hessian"].model == "resnet_mini"  # taken over
    assert (done.results["control"]["prediction"].data) == f"{data} (held-out)"


def test_a_treatment_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    own = {"hessian": {"batches": 2, "k": 1}}
    images = vs.load_data(few_pictures(tmp_path / "enough", train=8, test=4), split="test")
    vs.diagnose("resnet_mini", images, ["prediction", "hessian"], out=run, options=own)
    few = few_pictures(tmp_path / "few", train=2, test=2)
    with pytest.raises(VitscopeError, match="need 32 images"):
        apply(run, 1, data=few, only=["smooth"], progress=False)
    assert not (tmp_path / "run-treated").exists()
