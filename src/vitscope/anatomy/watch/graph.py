"""The graph of one forward pass: which tensor came from which, and which tensors everything passes through."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import Any

from torch import Tensor

from vitscope.anatomy.watch.one_forward import Site


@dataclass(frozen=True)
class Ref:
    """Stands for a tensor in the recorded arguments of an operation."""

    node: int


@dataclass
class Node:
    """One tensor of the pass and the operation that made it."""

    index: int
    name: str  # the operation; or "input", "leaf" (parameter, constant), "opaque" (made unwatched)
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    site: Site
    dynamic: bool  # depends on the model's input
    function: Any = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    value: Tensor | None = None  # kept for leaves and what is computed from leaves alone


Slot = int | str  # which argument or output of a module: a position or a keyword


@dataclass(frozen=True)
class ModuleCall:
    """One call of a module: the tensors it was given and those it gave back, as nodes."""

    path: str
    begin: int  # how many nodes there were before the call
    end: int  # and after it: the nodes in between were made inside it
    inputs: dict[Slot, int]
    outputs: dict[Slot, int]

    def __contains__(self, node: int) -> bool:
        return self.begin <= node < self.end


@dataclass
class Graph:
    """All nodes in the order they were made; the model's input first, its output named."""

    nodes: list[Node]
    input: int
    outputs: tuple[int, ...]
    batch: int
    calls: tuple[ModuleCall, ...] = ()  # in the order they ended
    output: str | int | None = None  # which of several outputs it ends with
    undecided: str = ""  # why it ends with all of them

    def __getitem__(self, index: int) -> Node:
        return self.nodes[index]

    def dynamic_inputs(self, node: Node) -> list[int]:
        """Those of a node's inputs that depend on the model's."""
        return [i for i in node.inputs if self.nodes[i].dynamic]

    @cached_property
    def ancestors(self) -> list[int]:
        """For every node, the set of nodes it comes from, as a bit mask."""
        masks: list[int] = []
        for node in self.nodes:
            mask = 0
            for i in node.inputs:
                mask |= masks[i] | (1 << i)
            masks.append(mask)
        return masks

    def descends(self, node: int, ancestor: int) -> bool:
        """Whether `node` was computed from `ancestor`."""
        return bool(self.ancestors[node] >> ancestor & 1)

    def between(self, start: int, end: int, outside: int | None = None) -> list[int]:
        """Nodes after `start` up to and with `end`, leaving out `outside` and all it comes from."""
        mask = self.ancestors[end] | (1 << end)
        if outside is not None:
            mask &= ~(self.ancestors[outside] | (1 << outside))
        return [i for i in bits(mask) if i > start and self.descends(i, start)]

    @cached_property
    def users(self) -> list[list[int]]:
        """For every node, the nodes computed from it directly."""
        users: list[list[int]] = [[] for _ in self.nodes]
        for node in self.nodes:
            for i in dict.fromkeys(node.inputs):
                users[i].append(node.index)
        return users

    @cached_property
    def useful(self) -> int:
        """Bit mask of the nodes the output depends on."""
        return reduce(int.__or__, (self.ancestors[output] | (1 << output) for output in self.outputs), 0)

    def readers(self, node: int) -> list[int]:
        """The nodes computed from it directly on which the output depends."""
        return [i for i in self.users[node] if self.useful >> i & 1]

    @cached_property
    def dominators(self) -> list[int]:
        """For every dynamic node, the nearest node that every path from the input to it passes through."""
        nearest = list(range(len(self.nodes)))
        for node in self.nodes:
            if node.dynamic and node.index != self.input:
                nearest[node.index] = reduce(partial(_meet, nearest), self.dynamic_inputs(node))
        return nearest

    def meeting_point(self, a: int, b: int) -> int:
        """The last node that every path to `a` and every path to `b` passes through."""
        return _meet(self.dominators, a, b)

    def trunk(self) -> list[int]:
        """The nodes that everything passes through, from the input to the output."""
        chain = [reduce(self.meeting_point, (o for o in self.outputs if self.nodes[o].dynamic))]
        while chain[-1] != self.input:
            chain.append(self.dominators[chain[-1]])
        return chain[::-1]


def _meet(nearest: list[int], a: int, b: int) -> int:
    while a != b:
        a, b = (nearest[a], b) if a > b else (a, nearest[b])
    return a


def bits(mask: int) -> Iterator[int]:
    """Positions of the set bits, rising."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
