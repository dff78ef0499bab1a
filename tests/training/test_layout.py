"""Channels last where it helps."""

import copy
from pathlib import Path

import pytest
import timm
import torch
from torch import nn

from tests.processes import run
from vitscope.data import DataConfig, data_config
from vitscope.models import create_model
from vitscope.training.layout import convolutions_over_few_points, lay_out
from vitscope.training.matrix_convolution import MatrixConv2d

CPU = torch.device("cpu")
ONE_STEP = """
import torch
from torch import nn
from vitscope.data import DataConfig
from vitscope.training.layout import lay_out

torch.set_num_threads(1)
model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 1, stride=2), nn.Flatten())
layout, _ = lay_out("always", model, DataConfig(input_size=(3, 32, 32)), torch.device("cpu"))
for _ in range(3):
    model(torch.randn(16, 3, 32, 32).contiguous(memory_format=layout)).sum().backward()
print("learned")
"""


def is_last(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()


@pytest.mark.parametrize(
    ("name", "size", "count"),
    [
        ("resnet18", 32, 4 + 4 + 3),  # those of the last two stages, and the shortcuts
        ("resnet18", 96, 2),  # two shortcuts
        ("resnet_mini", 32, 2),
        ("vit_mini", 32, 0),
    ],
)
def test_convolutions_over_few_points_are_found(name: str, size: int, count: int) -> None:
    model = timm.create_model(name).train()
    found = convolutions_over_few_points(model, DataConfig(input_size=(3, size, size)))
    assert len(found) == count
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


def test_they_are_matrix_products_until_released_and_outputs_are_the_same() -> None:
    torch.manual_seed(0)
    model: nn.Module = timm.create_model("resnet18").eval()
    plain = copy.deepcopy(model)
    images = torch.randn(4, 3, 32, 32)
    layout, release = lay_out("auto", model, DataConfig(input_size=(3, 32, 32)), CPU)
    assert layout == torch.channels_last
    assert type(model.layer4[0].conv1) is MatrixConv2d
    assert type(model.layer1[0].conv1) is nn.Conv2d
    torch.testing.assert_close(model(images.to(memory_format=layout)), plain(images), rtol=1e-4, atol=1e-5)
    release()
    assert not any(isinstance(module, MatrixConv2d) for module in model.modules())
    torch.testing.assert_close(model(images), plain(images), rtol=1e-4, atol=1e-5)


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


@pytest.mark.parametrize("wish", ["always", "auto"])
@pytest.mark.parametrize(
    ("convolution", "last"),
    [
        (nn.Conv2d(4, 8, 1, stride=2), False),
        (nn.Conv2d(4, 8, 1), True),
        (nn.Conv2d(4, 8, 3, stride=2), True),
        (nn.Conv2d(32, 8, 1, stride=2), True),
    ],
)
def test_what_would_crash_with_channels_last_does_not_get_them(
    wish: str, convolution: nn.Conv2d, last: bool
) -> None:
    model = nn.Sequential(nn.Conv2d(3, convolution.in_channels, 3), convolution)
    layout, release = lay_out(wish, model, DataConfig(input_size=(3, 64, 64)), CPU)
    release()
    assert (layout == torch.channels_last, is_last(model[0].weight)) == (last, last)


def test_a_strided_product_over_few_channels_learns(tmp_path: Path) -> None:
    (tmp_path / "one_step.py").write_text(ONE_STEP)
    done = run(tmp_path / "one_step.py")
    assert (done.returncode, done.stdout) == (0, "learned\n"), done.stderr
