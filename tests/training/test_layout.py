"""Channels last where it helps."""

import copy

import pytest
import timm
import torch
from torch import nn

from vitscope.data import DataConfig, data_config
from vitscope.models import create_model
from vitscope.training.layout import convolutions_to_a_point, lay_out

CPU = torch.device("cpu")


def is_last(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()


@pytest.mark.parametrize(
    ("name", "size", "count"),
    [
        ("resnet18", 32, 5),  # those of its last stage
        ("resnet18", 96, 0),
        ("resnet_mini", 32, 0),
        ("vit_mini", 32, 0),
    ],
)
def test_small_maps_are_found(name: str, size: int, count: int) -> None:
    model = timm.create_model(name).train()
    found = convolutions_to_a_point(model, DataConfig(input_size=(3, size, size)), CPU)
    assert len(found) == count
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


def test_the_last_stage_is_contiguous_the_others_are_not_and_outputs_are_the_same() -> None:
    torch.manual_seed(0)
    model: nn.Module = timm.create_model("resnet18").eval()
    plain = copy.deepcopy(model)
    images = torch.randn(4, 3, 32, 32)
    layout, release = lay_out("auto", model, DataConfig(input_size=(3, 32, 32)), CPU)
    seen: dict[str, bool] = {}
    for name in ("layer2", "layer4"):
        module = model.get_submodule(f"{name}.0.bn1")
        module.register_forward_hook(lambda m, i, o, name=name: seen.update({name: is_last(o)}))
    torch.testing.assert_close(model(images.to(memory_format=layout)), plain(images), rtol=1e-4, atol=1e-5)
    assert seen == {"layer2": True, "layer4": False}
    assert is_last(model.layer2[0].conv1.weight)
    assert not is_last(model.layer4[0].conv1.weight)
    release()
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_a_wish_is_a_wish() -> None:
    for wish, sharded, expected in (
        ("never", False, torch.contiguous_format),
        ("always", False, torch.channels_last),
        ("auto", False, torch.channels_last),
        ("auto", True, torch.contiguous_format),
    ):
        model = create_model("resnet_mini")
        assert lay_out(wish, model, data_config(model), CPU, sharded)[0] == expected
        assert is_last(model.layer1[0].conv1.weight) == (expected == torch.channels_last)
