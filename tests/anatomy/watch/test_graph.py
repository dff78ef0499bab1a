"""Ancestors, dominators and the trunk of small graphs whose answer can be seen."""

import random

from vitscope.anatomy.watch.graph import Graph, Node, bits
from vitscope.anatomy.watch.one_forward import Site


def graph(*inputs: tuple[int, ...]) -> Graph:
    """Node i has the given inputs; node 0 is the model's input, the last one its output."""
    nodes = [
        Node(i, "x", parents, (1,), Site("", 0, "x", 0), dynamic=True) for i, parents in enumerate(inputs)
    ]
    return Graph(nodes, input=0, outputs=(len(nodes) - 1,), batch=1)


def test_a_residual_block():
    block = graph((), (0,), (1,), (2,), (1, 3), (4,))  # 4 = 1 + 3(2(1))
    assert block.descends(3, 1)
    assert not block.descends(1, 3)
    assert block.between(1, 3) == [2, 3]
    assert block.meeting_point(1, 3) == 1
    assert block.trunk() == [0, 1, 4, 5]
    assert block.users[1] == [2, 4]


def test_two_branches():
    split = graph((), (0,), (0,), (1,), (2,), (3, 4))
    assert split.meeting_point(3, 4) == 0
    assert split.between(0, 3, outside=4) == [1, 3]
    assert split.trunk() == [0, 5]


def test_dominators_against_the_definition():
    """A node dominates another if every path from the input to it passes through: counted path by path."""
    draw = random.Random(0)
    for _ in range(30):
        inputs = [
            (),
            *(tuple(draw.sample(range(i), min(i, draw.choice((1, 1, 2, 3))))) for i in range(1, 12)),
        ]
        found = graph(*inputs)
        for node in range(1, 12):
            paths = _paths(inputs, node)
            always = set.intersection(*(set(path) for path in paths)) - {node}
            assert found.dominators[node] == max(always)


def _paths(inputs, node) -> list[list[int]]:
    if node == 0:
        return [[0]]
    return [[*path, node] for parent in inputs[node] for path in _paths(inputs, parent)]


def test_bits():
    assert list(bits(0b101001)) == [0, 3, 5]
