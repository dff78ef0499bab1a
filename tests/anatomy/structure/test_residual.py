"""Which additions are units."""

import pytest
import torch
from torch import nn

import vitscope as vs


def conv(width: int = 4) -> nn.Module:
    return nn.Conv2d(width, width, 3, padding=1)


class Stack(nn.Module):
    def __init__(self, forward, **parts: nn.Module) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 1)
        for name, part in parts.items():
            setattr(self, name, part)
        self._forward = forward

    def forward(self, x):
        return self._forward(self, self.stem(x))


def names(model: nn.Module) -> list[str]:
    return [unit.name for unit in vs.anatomy(model, (3, 8, 8)) if unit.residual]


def test_additions_inside_a_branch_are_its_inner_workings():
    inner = Stack(lambda m, x: x + m.b(m.a(x) + m.c(m.a(x))), a=conv(), b=conv(), c=conv())
    assert len(names(inner)) == 1


def test_a_long_skip_does_not_swallow_the_units_inside_it():
    def forward(m, x):
        y = x
        for block in (m.a, m.b, m.c):
            y = y + block(y)
        return x + m.last(y)

    assert names(Stack(forward, a=conv(), b=conv(), c=conv(), last=conv())) == ["a", "b", "c"]


def test_parallel_branches_are_two_units():
    parallel = Stack(lambda m, x: x + m.a(x) + m.b(x), a=conv(), b=nn.Conv2d(4, 4, 1))
    parts = vs.anatomy(parallel, (3, 8, 8))
    assert [(u.name, u.kind) for u in parts if u.residual] == [("a", "conv"), ("b", "mlp")]


def test_position_embeddings_and_biases_are_no_units():
    model = Stack(lambda m, x: m.a(x + torch.ones(1, 4, 8, 8)) + torch.ones(4, 8, 8), a=conv())
    assert names(model) == []


def test_projection_shortcut():
    model = Stack(lambda m, x: m.b(m.a(x)) + m.short(x), a=conv(), b=conv(), short=nn.Conv2d(4, 4, 1))
    (unit,) = (u for u in vs.anatomy(model, (3, 8, 8)) if u.residual)
    assert unit.removable
    with torch.no_grad(), vs.Tap(model, vs.anatomy(model, (3, 8, 8)), streams=True) as tap:
        x = torch.randn(2, 3, 8, 8)
        model(x)
    before, branch, _ = tap.streams[unit.name]
    assert torch.equal(before, model.short(model.stem(x)))
    assert torch.equal(branch, model.b(model.a(model.stem(x))))


def test_in_place_and_scaled_additions():
    def forward(m, x):
        y = m.a(x)
        y += x
        return m.b(y).mul_(0.5).add_(y * 2)

    parts = vs.anatomy(Stack(forward, a=conv(), b=conv()), (3, 8, 8))
    assert [u.removable for u in parts if u.residual] == [True, True]


def test_parallel_convolutions_of_one_tensor_are_one_convolution():
    def forward(m, x):
        y = torch.relu(m.a(x) + m.b(x) + m.norm(x))  # RepVGG in training dress
        return y + m.c(y)

    model = Stack(forward, a=conv(), b=nn.Conv2d(4, 4, 1), norm=nn.BatchNorm2d(4), c=conv())
    assert names(model.eval()) == ["c"]


class Deeper(nn.Module):
    """A stage of residual units on a coarser map, raised again."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(4, 4, 2, 2)
        self.units = nn.ModuleList([conv() for _ in range(units)])
        self.up = nn.ConvTranspose2d(4, 4, 2, 2)

    def forward(self, x):
        x = self.down(x)
        for unit in self.units:
            x = x + unit(x)
        return self.up(x)


@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize("lateral", [nn.Identity(), nn.Conv2d(4, 4, 1)], ids=["skip", "lateral"])
def test_an_addition_of_what_comes_up_from_a_deeper_stage_swallows_no_unit(units, lateral):
    model = Stack(lambda m, x: m.lateral(x) + m.deeper(x), deeper=Deeper(units), lateral=lateral)
    assert names(model) == (["deeper.units"] if units == 1 else ["deeper.units.0", "deeper.units.1"])
    assert vs.anatomy(model, (3, 8, 8))["deeper.down"].kind == "subsample"


def test_a_unit_may_work_on_a_smaller_map():
    model = Stack(lambda m, x: x + m.deeper(x), deeper=Deeper(0))
    assert names(model) == ["deeper"]
    assert vs.anatomy(model, (3, 8, 8))["deeper"].removable
    blocks = nn.ModuleList([Deeper(1), Deeper(1)])  # blocks of one kind: what is inside is their own affair

    def forward(m, x):
        for block in m.blocks:
            x = x + block(x)
        return x

    assert names(Stack(forward, blocks=blocks)) == ["blocks.0", "blocks.1"]


def test_of_two_sides_that_do_the_same_neither_is_the_stream():
    model = Stack(lambda m, x: m.a(x).relu() + m.b(x).relu(), a=conv(), b=nn.Conv2d(4, 4, 1))
    units = [u for u in vs.anatomy(model, (3, 8, 8)) if u.residual]
    assert [(u.removable, u.obstacle) for u in units] == [(False, "its shortcut does as much as its branch")]
