"""A block that runs twice in a pass is refused with the true reason, by every operation that would change it."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import vitscope as vs
from vitscope.core.errors import VitscopeError

SIZE = (3, 32, 32)
WIDTH = 16


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, t: Tensor) -> Tensor:
        q, k, v = (x.unflatten(-1, (4, -1)).transpose(1, 2) for x in self.qkv(t).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, t: Tensor) -> Tensor:
        t = t + self.attn(self.norm1(t))
        return t + self.mlp(self.norm2(t))


class Twice(nn.Module):
    """One block, used twice; or a copy of it the second time."""

    def __init__(self, shared: bool = True) -> None:
        super().__init__()
        self.embed, self.block, self.head = nn.Conv2d(3, WIDTH, 8, 8), Block(), nn.Linear(WIDTH, 5)
        self.again = None if shared else copy.deepcopy(self.block)

    def forward(self, x: Tensor) -> Tensor:
        t = self.block(self.embed(x).flatten(2).transpose(1, 2))
        t = (self.block if self.again is None else self.again)(t)
        return self.head(t.mean(1))


OPERATIONS = {
    "broadcast_context": lambda m: vs.surgery.broadcast_context(m, layers="all", example=SIZE),
    "squeeze_excite": lambda m: vs.surgery.squeeze_excite(m, layers="all", example=SIZE),
    "lesion": lambda m: vs.surgery.lesion(m, "block.mlp", example=SIZE),
    "uniform_heads A": lambda m: vs.surgery.uniform_heads(m, "A", example=SIZE),
    "uniform_heads C": lambda m: vs.surgery.uniform_heads(m, "C", example=SIZE),
    "localize": lambda m: vs.surgery.localize(m, 3, example=SIZE),
    "mc_dropout of a unit": lambda m: vs.surgery.mc_dropout(m, layers=["block.mlp"], example=SIZE),
}
REASON = r"module 'block.(attn|mlp)' of unit .* runs twice in a pass \(units 'block.\1', 'block.\1#2'\)"


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_reason_is_that_the_module_runs_twice(name: str):
    torch.manual_seed(0)
    model = Twice().eval()
    with pytest.raises(VitscopeError, match=REASON) as refusal:
        OPERATIONS[name](model)
    assert "give each its own copy (copy.deepcopy of 'block')" in str(refusal.value)
    assert "variant='C'" not in str(refusal.value)


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_the_refusal_advises_helps(name: str):
    torch.manual_seed(0)
    OPERATIONS[name](Twice(shared=False).eval())


def test_dropout_that_finds_no_place_says_why():
    with pytest.warns(UserWarning, match=REASON):
        vs.surgery.mc_dropout(Twice().eval(), example=SIZE)


class OneLayerTwice(Twice):
    """The blocks are different but for a layer that both use."""

    def __init__(self) -> None:
        super().__init__(shared=False)
        assert self.again is not None
        self.again.mlp = self.block.mlp


def test_other_units_than_the_shared_ones_are_operated_on():
    model = OneLayerTwice().eval()
    with pytest.warns(UserWarning, match=r"block.mlp' of unit 'block.mlp' .* runs twice"):
        vs.surgery.mc_dropout(model, example=SIZE)
    with pytest.raises(VitscopeError, match=r"runs twice in a pass \(units 'block.mlp', 'block.mlp#2'\)"):
        vs.surgery.lesion(OneLayerTwice().eval(), "block.mlp#2", example=SIZE)
