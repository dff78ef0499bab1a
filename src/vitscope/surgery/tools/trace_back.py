"""Follow a tensor of the watched pass back through the operations that only moved its elements, and do them again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from vitscope.anatomy.watch.graph import Graph, Node, Ref
from vitscope.anatomy.watch.operations import REARRANGE

PASSED = REARRANGE | {"contiguous", "clone", "to", "type_as", "float"}
SCALED = frozenset(("mul", "__mul__", "__rmul__", "div", "__truediv__", "mul_", "div_"))


@dataclass(frozen=True)
class Way:
    """From one node to a later one, by steps that only move elements, and scale them."""

    start: int
    steps: tuple[int, ...]
    factor: float


class Obstacle(Exception):
    """An operation that does more than to move elements; the argument is its name."""


def way_back(graph: Graph, node: int, wanted: Callable[[Node], bool]) -> Way:
    """Back from a node to the nearest one that is wanted; raises `Obstacle` where that is not to be had."""
    steps: list[int] = []
    factor = 1.0
    while not wanted(graph[node]):
        here = graph[node]
        dynamic = [i for i in here.inputs if graph[i].dynamic]
        number = _number(here)
        if len(dynamic) != 1 or not (here.name in PASSED or (here.name in SCALED and number is not None)):
            raise Obstacle(here.name)
        if here.name in SCALED and number is not None:
            factor *= 1 / number if "div" in here.name else number
        else:
            steps.append(node)
        node = dynamic[0]
    return Way(node, tuple(reversed(steps)), factor)


def _number(node: Node) -> float | None:
    """What a tensor is multiplied with or divided by, if that is a number."""
    others = [value for value in node.args if not isinstance(value, Ref)]
    return float(others[0]) if len(others) == 1 and isinstance(others[0], int | float) else None


def moved(graph: Graph, way: Way, tensor: Tensor) -> Tensor:
    """What becomes of a tensor at the start of a way."""
    for step in way.steps:
        node = graph[step]
        args, kwargs = _with(graph, node.args, tensor), _with(graph, node.kwargs, tensor)
        moved = tensor if node.name in ("to", "type_as", "float") else node.function(*args, **kwargs)
        tensor = moved[node.site.output] if isinstance(moved, tuple | list) else moved
    return tensor


def _with(graph: Graph, tree: Any, tensor: Tensor) -> Any:
    """Recorded arguments with a tensor in the place of the one that depends on the image."""
    if isinstance(tree, Ref):
        return tensor if graph[tree.node].dynamic else graph[tree.node].value
    if isinstance(tree, dict):
        return {key: _with(graph, value, tensor) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        items = [_with(graph, value, tensor) for value in tree]
        return items if isinstance(tree, list) else tuple(items)
    return tree


def moves(graph: Graph, start: int, end: int) -> bool:
    """Whether a node is another one with its elements in other places."""
    while end != start:
        dynamic = [i for i in graph[end].inputs if graph[i].dynamic]
        if graph[end].name not in PASSED or len(dynamic) != 1:
            return False
        end = dynamic[0]
    return True
