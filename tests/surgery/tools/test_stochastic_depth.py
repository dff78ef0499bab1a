import pytest
import torch
from timm.layers import DropPath
from torch import nn
from torchvision.ops import StochasticDepth
from transformers.models.convnext.modeling_convnext import ConvNextDropPath

from vitscope.surgery.tools.branches import drop_probability


@pytest.mark.parametrize(
    "module",
    [DropPath(0.2), StochasticDepth(0.2, "row"), ConvNextDropPath(0.2)],
    ids=["timm", "torchvision", "transformers"],
)
def test_finds_it_in_every_library(module):
    assert drop_probability(nn.Sequential(nn.Conv2d(3, 3, 3), module)) == pytest.approx(0.2, abs=1e-6)


@pytest.mark.parametrize(
    "module",
    [
        nn.Dropout(0.2),
        nn.Dropout2d(0.2),
        nn.Identity(),
        nn.ReLU(),
        nn.Hardtanh(0, 3),
        DropPath(0.0),
        nn.Flatten(),
    ],
    ids=lambda module: type(module).__name__,
)
def test_nothing_else_is_one(module):
    assert drop_probability(nn.Sequential(nn.Conv2d(3, 3, 3), module)) == 0.0


def test_leaves_random_state_and_mode():
    block = nn.Sequential(DropPath(0.5)).eval()
    before = torch.get_rng_state()
    drop_probability(block)
    assert torch.equal(torch.get_rng_state(), before)
    assert not block[0].training
