"""`upernet:NAME` and the like: any backbone, saved and read again, from run folders; no code runs unasked."""

import json
from pathlib import Path

import pytest
import torch

import vitscope as vs
from tests.models.dense.cases import images, make, shared
from vitscope.core.errors import VitscopeError
from vitscope.data import data_config
from vitscope.models import describe, origin, save_model
from vitscope.models.create import check_name
from vitscope.models.errors import CannotBuild, UnknownArgument, UnknownModel, UntrustedCode
from vitscope.models.origin import still_random


def said(model: torch.nn.Module) -> list[torch.Tensor]:
    with torch.no_grad():
        found = model.eval()(images())
    return [found] if isinstance(found, torch.Tensor) else [t for one in found for t in one.values()]


@pytest.mark.parametrize("name", ["upernet:vit_mini", "upernet:pit_mini", "maskrcnn:resnet_mini"])
def test_a_run_folder_gives_the_same_model(name: str, tmp_path: Path) -> None:
    model = shared(name)
    save_model(model, tmp_path)
    again = vs.create_model(tmp_path)
    assert all(torch.equal(one, other) for one, other in zip(said(again), said(model), strict=True))
    assert origin(again) == origin(model)
    assert data_config(again) == data_config(model) == data_config(model.backbone)


def test_on_the_model_of_a_run_folder(tmp_path: Path) -> None:
    """Trained and operated on; once it is saved, the dense model needs its folder no more."""
    torch.manual_seed(0)
    backbone = vs.create_model("vit_mini", num_classes=4, depth=4)
    vs.surgery.broadcast_context(backbone, "cb_s", layers="upper")
    for parameter in backbone.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    save_model(backbone, tmp_path / "a")
    model = vs.create_model(f"upernet:{tmp_path / 'a'}", num_classes=3, channels=8)
    with torch.no_grad():
        assert torch.equal(model.backbone.eval()(images()), backbone.eval()(images()))
    vs.surgery.localize(model, kernel=3)
    save_model(model, tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "gone")
    again = vs.create_model(tmp_path / "b")
    assert torch.equal(said(again)[0], said(model)[0])
    assert [entry["operation"] for entry in vs.surgery.record(again)] == ["localize"]
    assert origin(again) == origin(model)
    assert origin(model).name == "upernet:vit_mini"
    assert origin(model).arguments["backbone_classes"] == 4
    assert [e["operation"] for e in origin(model).arguments["backbone_surgery"]] == ["broadcast_context"]


def test_weights_of_the_backbone_can_be_those_it_comes_with() -> None:
    model = make("upernet:vit_mini", pretrained=True, depth=6, img_size=48)
    bare = vs.create_model("vit_mini", pretrained=True, img_size=48)
    assert all(torch.equal(p, q) for p, q in zip(model.backbone.parameters(), bare.parameters(), strict=True))
    assert data_config(model) == data_config(bare)
    assert data_config(model).input_size == (3, 48, 48)


def test_without_a_number_it_has_the_classes_of_the_backbone() -> None:
    assert vs.create_model("upernet:resnet_mini").num_classes == 10


@pytest.mark.parametrize("name", ["upernet:vit_mini", "maskrcnn:resnet_mini", "vilt_mini"])
def test_it_can_be_described(name: str) -> None:
    info = describe(name, num_classes=3)
    model = vs.create_model(name, num_classes=3)
    assert info.parameters == sum(p.numel() for p in model.parameters())
    assert info.source == "vitscope"
    assert info.input_size == data_config(model).input_size
    assert info.flops is not None
    assert info.flops > 0


@pytest.mark.parametrize(
    ("name", "arguments", "error", "words"),
    [
        ("upernet:", {}, CannotBuild, "names no backbone; expected upernet:NAME"),
        ("upernet:unet:vit_mini", {}, CannotBuild, "names no backbone"),
        ("upernet:vit_minni", {}, UnknownModel, "did you mean vit_mini"),
        ("upernet:vit_mini", {"colour": 1}, UnknownArgument, "takes no argument 'colour'"),
        ("upernet:vit_mini", {"num_classes": 0}, VitscopeError, "num_classes"),
        ("upernet:/no/such/run", {}, UnknownModel, "no run folder '/no/such/run'"),
    ],
)
def test_what_cannot_be_built_is_refused(name: str, arguments: dict, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        vs.create_model(name, **arguments)


def test_names_are_checked_before_anything_is_built() -> None:
    check_name("maskrcnn:resnet_mini")
    with pytest.raises(UnknownModel, match="resnet_mini"):
        check_name("maskrcnn:resnet_minni")


@pytest.mark.parametrize("name", ["upernet:os:getcwd", "upernet:tests.models.factories:small"])
def test_a_file_cannot_make_it_run_a_function(name: str, tmp_path: Path) -> None:
    save_model(shared("upernet:vit_mini"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["model"]["name"] = name
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UntrustedCode, match="names code, which was not run"):
        vs.create_model(tmp_path)


def test_a_file_cannot_name_a_folder(tmp_path: Path) -> None:
    save_model(shared("upernet:vit_mini"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["model"]["name"] = f"upernet:{tmp_path}"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(VitscopeError, match="it names a folder"):
        vs.create_model(tmp_path)


def test_random_weights_are_remembered_as_such() -> None:
    fresh = vs.create_model("upernet:vit_mini", channels=16)
    assert still_random(fresh)
    with torch.no_grad():
        next(fresh.parameters()).add_(1.0)
    assert not still_random(fresh)
    assert not still_random(vs.create_model("upernet:vit_mini", pretrained=True, channels=16))
