import json
from pathlib import Path

import pytest
import torch

import vitscope as vs
from tests.data.test_folder import fill
from tests.forged import forge, set_to
from tests.prescribe.conftest import Change, kept
from vitscope.core.errors import BadData, BadResult
from vitscope.engine.cache_key import weights_hash
from vitscope.prescribe import RULES, apply


def test_what_was_said_is_in_the_run(changed: Change) -> None:
    run = changed("resnet_mini")
    found = vs.prescribe(run)
    content = json.loads((run / "prescription.json").read_text())
    assert content["schema"] == 1
    assert [entry["rule"] for entry in content["rules"]] == list(RULES) == [p.rule for p in found.rules]
    for entry, p in zip(content["rules"], found.rules, strict=True):
        assert (entry["state"], entry["reason"], entry["arguments"]) == (p.state, p.reason, p.arguments)
        assert [e["value"] for e in entry["evidence"]] == [e.value for e in p.evidence]
    assert list(run.glob("*.part")) == []


def test_a_missing_exam_is_named_with_its_command(changed: Change) -> None:
    run = changed("vit_mini")
    said = vs.prescribe(run)
    found = said["localize"]
    assert found.state == "unknown"
    assert found.missing == ("hessian",)
    assert found.reason.endswith(f"--exams hessian --out {run}")
    assert said["alternate"].missing == ("lesion",)  # which would refine it


def test_asking_leaves_model_and_random_state_alone(changed: Change) -> None:
    run, model = changed("resnet_mini"), vs.create_model("resnet_mini", pretrained=True)
    before, state = weights_hash(model), torch.get_rng_state()
    assert vs.prescribe(run, model=model)["alternate"].cost is not None  # it was done on a copy
    assert weights_hash(model) == before
    assert vs.surgery.record(model) == []
    assert torch.equal(torch.get_rng_state(), state)


def test_what_was_done_already_is_not_needed(tmp_path: Path) -> None:
    model = vs.surgery.smooth(vs.create_model("resnet_mini"))
    data = vs.load_data("fashion", split="test")
    kept(tmp_path / "run", model, vs.diagnose(model, data, ["prediction"], limit=10))
    found = vs.prescribe(tmp_path / "run", model=model)["smooth"]
    assert found.state == "not needed"
    assert "already" in found.reason
    assert not found.applicable


def test_exams_that_need_labels_are_not_asked_for_where_there_are_none(tmp_path: Path) -> None:
    fill(tmp_path, {"photos": 4})
    model, run = vs.create_model("vit_mini", pretrained=True), tmp_path / "run"
    vs.diagnose(model, f"folder:{tmp_path / 'photos'}", ["fourier", "attention"], out=run)
    said = vs.prescribe(run)
    assert said["localize"].reason == (
        f"it needs hessian, and that labels, which folder:{tmp_path / 'photos'} (test) lacks"
    )
    with pytest.raises(BadData, match="a treatment, which is trained and scored, needs labels"):
        apply(run, epochs=1, out=tmp_path / "treated")
    assert not (tmp_path / "treated").exists()


def test_an_exam_whose_contents_do_not_fit_together_is_named(changed: Change) -> None:
    run = changed("vit_mini")
    path = forge(run, "attention", set_to([7] * 4, "head", "values"))
    forge(run, "attention", set_to([4], "head", "shape"))
    with pytest.raises(BadResult) as refused:
        vs.prescribe(run)
    assert str(refused.value).startswith(f"{path} is damaged: its contents do not fit together")
    assert f"; remove {path.parent} and repeat: " in str(refused.value)
    assert refused.value.__cause__ is not None
