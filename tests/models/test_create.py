"""Models by name."""

from pathlib import Path

import pytest
import timm
import torch

from vitscope.core.errors import BadArgument
from vitscope.models import (
    OURS,
    UnknownArgument,
    UnknownModel,
    create_model,
    list_models,
    origin,
    save_model,
)


def test_timm_name_gives_timms_model() -> None:
    torch.manual_seed(0)
    ours = create_model("resnet18", num_classes=5)
    torch.manual_seed(0)
    theirs = timm.create_model("resnet18", num_classes=5)
    assert type(ours) is type(theirs)
    for (name, a), (_, b) in zip(ours.state_dict().items(), theirs.state_dict().items(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("resnet_50", "resnet50"),
        ("vit_mimi", "vit_mini"),
        ("tv:resnet51", "tv:resnet50"),
        ("swin_tiny", "swin_tiny_patch4_window7_224"),
    ],
)
def test_unknown_name_says_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(UnknownModel, match=f"no model '{wrong}'.*{right}.*vitscope models"):
        create_model(wrong)


def test_name_far_from_all() -> None:
    with pytest.raises(UnknownModel, match="no name is near it"):
        create_model("zzzzqqqq")


def test_missing_folder() -> None:
    with pytest.raises(BadArgument, match=r"name is '' .*; expected a model's name, or a run folder"):
        create_model("")
    with pytest.raises(UnknownModel, match="no run folder 'runs/nowhere'"):
        create_model("runs/nowhere")


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_a_file_of_weights_is_no_model(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(f"vit.{ending}").write_bytes(b"")
    for name in (f"vit.{ending}", f"./vit.{ending}", Path(f"vit.{ending}")):
        with pytest.raises(
            UnknownModel, match=rf"'vit.{ending}' is a file of weights.*package.module:function"
        ):
            create_model(name)
    save_model(create_model("vit_mini", depth=1), "runs/a")
    with pytest.raises(UnknownModel, match="in a run folder; give the folder: runs/a"):
        create_model("runs/a/model.safetensors")


def test_unknown_argument_says_the_nearest() -> None:
    with pytest.raises(
        UnknownArgument, match="vit_mini takes no argument 'embed_dims'; did you mean embed_dim"
    ):
        create_model("vit_mini", embed_dims=10)


def test_model_remembers_the_call_that_made_it() -> None:
    made = origin(create_model("vit_mini", num_classes=3, img_size=16, depth=2))
    assert made is not None
    assert (made.name, dict(made.arguments)) == ("vit_mini", {"num_classes": 3, "img_size": 16, "depth": 2})
    assert origin(torch.nn.Linear(2, 2)) is None


def test_folder_beside_a_model_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_model(create_model("vit_mini", num_classes=2, depth=1), tmp_path / "vit_mini", ["a", "b"])
    assert create_model("vit_mini").num_classes == 10
    assert create_model("./vit_mini").num_classes == 2
    assert create_model(Path("vit_mini")).num_classes == 2


def test_list_holds_every_source_once() -> None:
    names = list_models()
    assert len(names) == len(set(names))
    assert set(timm.list_models()) <= set(names)
    assert "tv:resnet50" in names
    assert list_models("vit_min*") == ["vit_mini"]
    assert names[: len(OURS)] == list(OURS)
