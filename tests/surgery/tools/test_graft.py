"""Grafts: children that work on what a module takes or gives, and leave no trace when they go."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import timm
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.surgery.checks import check_graph, outputs
from vitscope.core.errors import VitscopeError
from vitscope.surgery.tools.graft import Grafted, graft, grafts, ungraft


class Scale(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class Twice(nn.Module):
    """Runs what it is around twice and adds up."""

    def forward(self, run, *args, **kwargs):
        return run(*args, **kwargs) + run(*args, **kwargs)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


def test_each_place_does_what_it_says() -> None:
    model, x = net(), torch.randn(2, 4)
    first, last = copy.deepcopy(model[0]), copy.deepcopy(model[2])
    graft(model, "0", Scale(2.0), "scale", "input")
    graft(model, "2", Scale(3.0), "scale", "output")
    graft(model, "2", Twice(), "twice", "around")
    assert torch.equal(model(x), 3.0 * (2 * last(first(2.0 * x).relu())))
    assert set(model.state_dict()) - set(net().state_dict()) == {"0.scale.factor", "2.scale.factor"}


def test_a_graft_leaves_no_trace() -> None:
    model, x = net(), torch.randn(2, 4)
    said = model(x)
    classes = [type(m) for m in model.modules()]
    paths = [graft(model, "0", Scale(2.0), "scale", side) for side in ("input", "output")]
    assert paths == ["0.scale", "0.scale_2"]
    assert isinstance(model[0], nn.Linear)
    assert [path for path, _ in grafts(model)] == paths
    for path in paths:
        ungraft(model, path)
    assert torch.equal(model(x), said)
    assert [type(m) for m in model.modules()] == classes
    assert not hasattr(model[0], "vitscope_grafts")
    with pytest.raises(VitscopeError, match="no graft"):
        ungraft(model, "0.scale")


def test_keywords_tuples_and_shared_arguments() -> None:
    attention = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    model = nn.ModuleDict({"attention": attention})
    x = torch.randn(2, 3, 4)
    wanted = attention(2 * x, 2 * x, 2 * x, need_weights=False)[0]
    graft(model, "attention", Scale(2.0), "scale", "input", (0, 1, "value"))
    graft(model, "attention", Scale(5.0), "grow", "output", (0,))
    seen, weights = model["attention"](x, x, value=x, need_weights=False)
    assert weights is None
    assert torch.allclose(seen, 5 * wanted, atol=1e-6)
    graft(model, "attention", Scale(1.0), "late", "input", ("bias",))
    with pytest.raises(VitscopeError, match="argument"):
        model["attention"](x, x, x)


class Loop(nn.Module):
    """Runs through its children, in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.way, self.first, self.second = way, nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        ways = {
            "children": lambda: list(self.children()),
            "named_children": lambda: [child for _, child in self.named_children()],
            "_modules": lambda: list(self._modules.values()),
            "modules": lambda: [module for module in self.modules() if module is not self],
        }
        for module in ways[self.way]():
            x = module(x).relu()
        return x


class Again(Loop):
    """Calls itself once more from inside."""

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "again":
            self.way = "children"
            x = self(x)
            self.way = "again"
        return super().forward(x) if self.way != "again" else x


@pytest.mark.parametrize("way", ["children", "named_children", "_modules", "modules", "Sequential"])
def test_a_loop_over_children_runs_no_graft(way: str) -> None:
    host = net() if way == "Sequential" else Loop(way)
    model, x = nn.ModuleDict({"host": host}).eval(), torch.randn(2, 4)
    wanted, keys = 3 * host(2 * x), [name for name, _ in model.named_parameters()]
    graft(model, "host", Scale(2.0), "before", "input")
    path = graft(model, "host", Scale(3.0), "after", "output")
    for twin in (model, copy.deepcopy(model)):
        assert torch.equal(twin["host"](x), wanted)
    # everywhere else the graft is a child like any other
    assert [name for name, _ in model.named_parameters()] == [
        *keys,
        "host.before.factor",
        "host.after.factor",
    ]
    assert list(model.state_dict()) == [*keys, "host.before.factor", "host.after.factor"]
    assert len(list(host.children())) == len(list(host.named_children())) == len(host._modules)
    assert model.double()["host"].after.factor.dtype is torch.float64
    assert model.train()["host"].after.training
    check_graph(nn.Sequential(model.float()["host"]), x)
    ungraft(model, path)
    assert torch.allclose(host(x), wanted / 3)


def test_grafts_are_children_again_after_an_error_and_inside_a_nested_call() -> None:
    host = Loop("children")
    graft(host, "", Scale(1.0), "scale", "input")
    with pytest.raises(RuntimeError):
        host(torch.randn(2, 5))
    assert len(list(host.children())) == 3
    nested = Again("again")
    wanted = nested(torch.ones(2, 4))
    graft(nested, "", Scale(1.0), "scale", "output")
    assert torch.equal(nested(torch.ones(2, 4)), wanted)
    assert len(list(nested.children())) == 3


def test_threads_do_not_show_each_other_their_grafts() -> None:
    host, x = Loop("children"), torch.randn(64, 4)
    wanted = 2 * host(x)
    graft(host, "", Scale(2.0), "scale", "output")
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: host(x), range(64)):
            assert torch.equal(found, wanted)
    assert len(list(host.children())) == 3


def test_a_tensor_given_twice_is_worked_on_once() -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return x, x + 1, x

    class Draw(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.rand_like(x)

    model = nn.ModuleDict({"pair": Pair()})
    graft(model, "pair", Draw(), "draw", "output", (0, 2))
    first, second, third = model["pair"](torch.zeros(3))
    assert torch.equal(first, third)
    assert torch.equal(second, torch.ones(3))


def test_precision_device_and_mode_follow_the_module() -> None:
    model = net().double().train()
    graft(model, "0", Scale(2.0), "scale", "output")
    child = model[0].get_submodule("scale")
    assert child.factor.dtype is torch.float64
    assert child.training


def test_a_grafted_model_copies_exports_and_compiles() -> None:
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2).eval()
    graft(model, "blocks.0.mlp", Scale(2.0), "scale", "output")
    graft(model, "blocks.1.attn", Twice(), "twice", "around")
    images = torch.randn(2, 3, 32, 32)
    said = outputs(model, images)
    twin = copy.deepcopy(model)
    assert isinstance(twin.blocks[0].mlp, Grafted)
    assert torch.equal(outputs(twin, images)[0], said[0])
    twin.blocks[0].mlp.get_submodule("scale").factor.data.fill_(0.0)
    assert torch.equal(outputs(model, images)[0], said[0])
    check_graph(model, images)


def test_anatomy_reads_a_grafted_model_as_before() -> None:
    model = vs.create_model("vit_mini")
    names = [unit.name for unit in vs.anatomy(model)]
    graft(model, "blocks.0.mlp", Scale(2.0), "scale", "output")
    assert [unit.name for unit in vs.anatomy(model)] == names
