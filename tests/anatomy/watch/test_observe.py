"""What the recorder must not lose sight of."""

from functools import lru_cache

import pytest
import torch
from torch import nn

from vitscope.anatomy.watch.observe import observe


def last(module: nn.Module, shape=(2, 3, 4, 4)):
    graph = observe(module.eval(), torch.randn(shape))
    return graph, graph[graph.outputs[0]]


class Scripted(nn.Module):
    """A scripted function in the middle: its inside cannot be seen, the connection must not break."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 3, 1)
        self.inner = Inner()

    def forward(self, x):
        return self.inner(self.stem(x)) * 2


@torch.jit.script
def squash(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) + 1


class Inner(nn.Module):
    def forward(self, x):
        return squash(x).relu()


def test_scripted_functions_are_opaque_but_connected():
    graph, output = last(Scripted())
    assert output.dynamic
    assert graph.descends(output.index, graph.input)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


def test_autograd_functions_are_connected():
    class Module(nn.Module):
        def forward(self, x):
            return Double.apply(x) + 1

    graph, output = last(Module())
    assert graph.descends(output.index, graph.input)


def test_in_place_writes_into_views_reach_the_whole():
    class Module(nn.Module):
        def forward(self, x):
            whole = torch.zeros(2, 3, 4, 4)
            whole[:, :, :2] = x[:, :, :2]
            rows = whole[:, :, 2:]
            rows.add_(x[:, :, 2:])
            return whole * 1

    graph, output = last(Module())
    assert graph.descends(output.index, graph.input)


def test_what_does_not_depend_on_the_image_is_static():
    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.randn(3, 4, 4))

        def forward(self, x):
            bias = self.table.exp() + torch.arange(4)
            return x + bias

    graph, output = last(Module())
    a, b = (graph[i] for i in output.inputs)
    assert (a.dynamic, b.dynamic) == (True, False)


def test_operations_that_hand_back_their_argument_make_no_node():
    class Module(nn.Module):
        def forward(self, x):
            return nn.functional.dropout(x.contiguous(), 0.5, training=False) + 1

    graph, _ = last(Module())
    assert [node.name for node in graph.nodes if node.dynamic] == ["input", "add"]


class Cached(nn.Module):
    """A table of positions that is made once per size, out of sight of later passes."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4)

    @staticmethod
    @lru_cache
    def table(size: int, device: str) -> torch.Tensor:
        return torch.linspace(0, 1, size, device=device)

    def forward(self, x):
        return self.mix(x) * torch.cos(self.table(x.shape[-1], x.device.type))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_comes_from_a_cache_does_not_depend_on_the_images(device):
    module = Cached().to(device)
    for _ in range(2):  # at the second time the table is there before the first pass
        graph = observe(module, torch.randn(2, 3, 4, 4, device=device))
        cosine = next(node for node in graph.nodes if node.name == "cos")
        assert not cosine.dynamic
        assert graph[graph.outputs[0]].dynamic
