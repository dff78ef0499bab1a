"""Attention that a constant mask keeps near is reported as local."""

import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from vitscope.anatomy.structure.neighbourhood import neighbourhood

GRID = (4, 6)


class Masked(nn.Module):
    """Patches of 4x4, one attention with a mask, a linear head."""

    def __init__(self, mask: Tensor, fused: bool) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)
        self.head = nn.Linear(8, 5)
        self.register_buffer("mask", mask)
        self.fused = fused

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(x).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        if self.fused:
            found = nn.functional.scaled_dot_product_attention(q, k, v, self.mask)
        else:
            found = (q @ k.transpose(-2, -1) + self.mask).softmax(-1) @ v
        x = x + self.out(found.transpose(1, 2).flatten(2))
        return self.head(x.mean(1))


def additive(seen: Tensor) -> Tensor:
    return torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))


def attention(mask: Tensor, fused: bool) -> vs.anatomy.Attention:
    [unit] = vs.anatomy(Masked(mask, fused), (3, 16, 24)).of_kind("msa")
    assert unit.attention is not None
    return unit.attention


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kernel", [(3, 3), (2, 5)])
def test_local(kernel: tuple[int, int], fused: bool) -> None:
    seen = neighbourhood(GRID, kernel)
    for mask in [additive(seen), torch.randn(1, 2, 24, 24) + additive(seen)] + [seen] * fused:
        found = attention(mask, fused)
        assert (found.pattern, found.window) == ("local", kernel)


@pytest.mark.parametrize("fused", [True, False])
def test_not_local(fused: bool) -> None:
    seen = neighbourhood(GRID, (3, 3))
    heads_differ = torch.stack([seen, neighbourhood(GRID, (1, 1))])
    for mask in (torch.randn(24, 24), additive(seen.roll(1, 0)), additive(heads_differ)):
        found = attention(mask, fused)
        assert (found.pattern, found.window) == ("global", None)


def test_without_values_nothing_is_claimed() -> None:
    with torch.device("meta"):
        model = Masked(neighbourhood(GRID, (3, 3)), fused=True)
    [unit] = vs.anatomy(model, (3, 16, 24)).of_kind("msa")
    assert unit.attention is not None
    assert unit.attention.pattern == "global"
