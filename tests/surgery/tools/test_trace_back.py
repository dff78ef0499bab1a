"""Ways back through operations that only move elements."""

import pytest
import torch
from torch import Tensor, nn

from vitscope.anatomy.watch.observe import observe
from vitscope.surgery.tools.trace_back import Obstacle, moved, moves, way_back


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 12)

    def forward(self, x: Tensor) -> Tensor:
        a, _ = self.linear(x).chunk(2, -1)
        a = a.unflatten(-1, (3, 2)).transpose(1, 2) * 0.5
        return (a / 4).contiguous().flatten(2)


def test_back_and_forth() -> None:
    model, x = Steps(), torch.randn(2, 5, 6)
    graph = observe(model, x)
    [out] = graph.outputs
    way = way_back(graph, out, lambda node: node.name == "linear")
    assert way.factor == 0.125
    torch.testing.assert_close(moved(graph, way, model.linear(x)) * way.factor, model(x))
    scaled = next(node.index for node in graph.nodes if node.name == "mul")
    before = graph[scaled].inputs[0]
    assert moves(graph, way.start, before)
    assert not moves(graph, way.start, out)  # it was scaled as well


def test_an_obstacle_is_named() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Flatten())
    graph = observe(model, torch.randn(2, 5, 6))
    with pytest.raises(Obstacle, match="tanh"):
        way_back(graph, graph.outputs[0], lambda node: node.name == "linear")
