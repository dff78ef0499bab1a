"""The 32-pixel sizes: the same weights as timm's models have, but for what the image size changes."""

import pytest
import timm
import torch
from torch import nn

from vitscope.models import create_model
from vitscope.models.input_configs import CIFAR_MEAN, CIFAR_STD

TRANSFORMERS = [
    *[(f"vit_tiny_patch{p}_32", "vit_tiny_patch16_224", {"patch_size": p}) for p in (2, 4, 8)],
    *[(f"vit_small_patch{p}_32", "vit_small_patch16_224", {"patch_size": p}) for p in (2, 4, 8)],
    *[(f"vit_base_patch{p}_32", "vit_base_patch16_224", {"patch_size": p}) for p in (2, 4, 8)],
    ("pit_ti_patch2_32", "pit_ti_224", {"patch_size": 2, "stride": 2}),
    ("pit_b_patch2_32", "pit_b_224", {"patch_size": 2, "stride": 2}),
    ("swin_tiny_patch1_window4_32", "swin_tiny_patch4_window7_224", {"patch_size": 1, "window_size": 4}),
    ("twins_svt_small_32", "twins_svt_small", {"patch_size": 1}),
    ("convit_tiny_32", "convit_tiny", {"patch_size": 2}),
]
RESNETS = ["resnet18", "resnet34", "resnet50", "resnet101", "resnext50_32x4d"]


def shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize(("name", "large", "arguments"), TRANSFORMERS)
def test_transformers_are_timms(name: str, large: str, arguments: dict[str, int]) -> None:
    with torch.device("meta"):
        ours, theirs = timm.create_model(name), timm.create_model(large, img_size=32, **arguments)
    assert shapes(ours) == shapes(theirs)
    assert isinstance(ours, type(theirs))


@pytest.mark.parametrize("name", RESNETS)
def test_resnets_are_timms_but_for_the_stem(name: str) -> None:
    with torch.device("meta"):
        ours, theirs = shapes(timm.create_model(f"{name}_32")), shapes(timm.create_model(name))
    assert ours.pop("conv1.weight") == (64, 3, 3, 3)
    assert theirs.pop("conv1.weight") == (64, 3, 7, 7)
    assert ours == theirs


@pytest.mark.parametrize(
    ("name", "large", "times"),
    [("tiny", "mixer_s32_224", 2), ("small", "mixer_s16_224", 1), ("base", "mixer_b16_224", 1)],
)
def test_mixers_are_timms_on_other_tokens_and_the_tiny_one_half_of_mixer_s(
    name: str, large: str, times: int
) -> None:
    with torch.device("meta"):
        ours, theirs = timm.create_model(f"mixer_{name}_patch2_32"), timm.create_model(large)
    assert len(ours.blocks) == len(theirs.blocks)
    block, wide = ours.blocks[0], theirs.blocks[0]
    assert block.mlp_tokens.fc1.in_features == 16 * 16
    assert times * block.mlp_channels.fc1.in_features == wide.mlp_channels.fc1.in_features
    for mlp, other in ((block.mlp_tokens, wide.mlp_tokens), (block.mlp_channels, wide.mlp_channels)):
        assert times * mlp.fc1.out_features == other.fc1.out_features


@pytest.mark.parametrize("name", [*[row[0] for row in TRANSFORMERS], "resnet18_32", "mixer_base_patch2_32"])
def test_input_and_classes(name: str) -> None:
    with torch.device("meta"):
        model = create_model(name)
        logits = create_model(name, num_classes=100).eval()(torch.empty(2, 3, 32, 32))
    assert logits.shape == (2, 100)
    config = model.pretrained_cfg
    assert (config["input_size"], config["num_classes"]) == ((3, 32, 32), 1000)
    assert (config["mean"], config["std"]) == (CIFAR_MEAN, CIFAR_STD)


def test_other_sizes() -> None:
    with torch.device("meta"):
        for name in ("vit_tiny_patch4_32", "twins_svt_small_32", "swin_tiny_patch1_window4_32"):
            model = create_model(name, img_size=64, num_classes=5)
            assert model.eval()(torch.empty(1, 3, 64, 64)).shape == (1, 5)
