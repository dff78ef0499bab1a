import json
from pathlib import Path

import pytest
import torch

import vitscope as vs
from tests.prescribe.conftest import EXAMS, Change
from vitscope.core.errors import VitscopeError
from vitscope.models import save_model
from vitscope.prescribe.examined_model import examined_on, find_examined_model
from vitscope.results import Run
from vitscope.results.examined import Examination


def test_a_name_leads_back_to_the_model(diagnosed: Path) -> None:
    examined = find_examined_model(Run.open(diagnosed / "vit_mini"))
    assert examined.reference == examined.name == "vit_mini"
    trained = vs.create_model("vit_mini", pretrained=True)
    for name, value in trained.state_dict().items():
        assert torch.equal(examined.model.state_dict()[name], value)
    exams = tuple(EXAMS["vit_mini"])
    assert examined_on(examined.run) == Examination("fashion (test)", "fashion", "test", exams, limit=20)
    out = str(diagnosed / "vit_mini")
    wanted = f"vitscope diagnose vit_mini --data fashion --split test --limit 20 --exams hessian --out {out}"
    assert examined.command(("hessian",)) == wanted
    wanted = "vitscope evaluate vit_mini --data fashion --split test --limit 20 --exams prediction --temperature fit"
    assert examined.fit_command() == wanted


def test_commands_make_the_model_as_it_was_made(tmp_path: Path) -> None:
    model = vs.create_model("vit_mini", img_size=64, num_classes=7)
    vs.diagnose(model, torch.rand(4, 3, 64, 64), ["variance"], out=tmp_path)
    typed = find_examined_model(Run.open(tmp_path), model).command(("fourier",))
    assert typed.startswith("vitscope diagnose vit_mini --img-size 64 --num-classes 7 --data DATA"), typed


def test_a_run_folder_leads_back_to_an_operated_model(tmp_path: Path) -> None:
    model = vs.surgery.smooth(vs.create_model("resnet_mini"))
    save_model(model, tmp_path / "model", classes=[str(i) for i in range(10)])
    images = vs.load_data("fashion", split="test")
    vs.diagnose(tmp_path / "model", images, ["variance"], limit=4, out=tmp_path / "elsewhere")
    examined = find_examined_model(Run.open(tmp_path / "elsewhere"))
    assert examined.reference == str(tmp_path / "model")
    assert [entry["operation"] for entry in vs.surgery.record(examined.model)] == ["smooth"]
    assert vs.prescribe(tmp_path / "elsewhere")["smooth"].state == "unknown"  # predictions were not examined


def test_other_weights_than_examined_are_refused(changed: Change) -> None:
    torch.manual_seed(1)
    run = changed("resnet_mini")
    with pytest.raises(VitscopeError, match="other weights"):
        find_examined_model(Run.open(run), vs.create_model("resnet_mini"))
    with pytest.raises(VitscopeError, match="other weights"):
        find_examined_model(Run.open(run), "vit_mini")


def test_a_model_that_cannot_be_made_again_has_to_be_named(changed: Change) -> None:
    run = changed("resnet_mini")
    record = json.loads((run / "run.json").read_text())
    record["model"] |= {"name": "my own model", "origin": None}
    (run / "run.json").write_text(json.dumps(record))
    with pytest.raises(VitscopeError, match="--model MODEL"):
        find_examined_model(Run.open(run))
    assert find_examined_model(Run.open(run), "resnet_mini").name == "my own model"


def test_a_run_without_exams_says_how_to_make_some(tmp_path: Path) -> None:
    with Run.start(tmp_path / "run"):
        pass
    with pytest.raises(VitscopeError, match="vitscope diagnose MODEL"):
        find_examined_model(Run.open(tmp_path / "run"))


def test_images_given_in_python_have_no_name(tmp_path: Path) -> None:
    with Run.start(tmp_path / "run", options={"data": "tensors", "exams": ["variance"]}):
        pass
    assert examined_on(Run.open(tmp_path / "run")) == Examination("tensors", None, exams=("variance",))


def test_commands_say_that_code_is_trusted_where_a_run_folder_names_some(
    diagnosed: Path, tmp_path: Path
) -> None:
    """A function that somebody types is his own choice; one that stands in a run folder is not."""
    model = vs.create_model("tests.exams.factories:tiny")
    save_model(model, tmp_path / "model", classes=[str(i) for i in range(10)])
    images = vs.load_data("fashion", split="test")
    vs.diagnose(tmp_path / "model", images, ["variance"], limit=4, out=tmp_path / "run", trust_code=True)
    assert "--trust-code" in find_examined_model(Run.open(tmp_path / "run"), trust_code=True).command(())
    assert "--trust-code" not in find_examined_model(
        Run.open(diagnosed / "vit_mini"), trust_code=True
    ).command(())
