"""The main path through a graph, along which it is cut into units.

Where everything passes through the same tensors, that is the trunk. Where several stages feed a decoder, or are
outputs themselves, the trunk ends at the first of them. There the way goes on: into the deepest stage, as far
as everything that leads there passes through one tensor after another, and back out of it along what comes of it,
until the sides meet. What lies beside the way (lateral convolutions, projections of shallow stages) belongs to
the step at which it joins.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise

from torch import nn

from vitscope.anatomy.structure.layout import Layouts
from vitscope.anatomy.structure.naming import common_path, in_one_block
from vitscope.anatomy.watch.graph import Graph
from vitscope.anatomy.watch.operations import HEAVY, POOLS


@dataclass
class Step:
    """One step of the path and what is done in it."""

    node: int
    before: int
    contents: list[int]
    outputs: bool = False  # it leads to several outputs, of which `node` is the last


def find_steps(
    graph: Graph, layouts: Layouts, model: nn.Module, units: set[int], covered: set[int]
) -> list[Step]:
    """The steps from the input to the output.

    `units` are the residual additions that are units, `covered` those and all that lies in their branches.
    """
    return _MainPath(graph, layouts, model, units, covered).steps()


class _MainPath:
    """Finds the path: down into the deepest stage, and back up to the output."""

    def __init__(
        self, graph: Graph, layouts: Layouts, model: nn.Module, units: set[int], covered: set[int]
    ) -> None:
        self.graph, self.layouts, self.model, self.units, self.covered = graph, layouts, model, units, covered

    def steps(self) -> list[Step]:
        trunk = self.graph.trunk()
        steps = [step for before, node in pairwise(trunk) for step in self._detour(before, node)]
        if len(self.graph.outputs) > 1:
            steps += self._detour(trunk[-1], None)  # None: all outputs together
        return steps

    def _detour(self, before: int, node: int | None) -> list[Step]:
        """The steps from `before` to `node`: one, unless a deeper stage lies between them."""
        inside = self._inside(before, node)
        free = [i for i in inside if i not in self.covered]
        deepest = self._deepest(before, node, inside) if self._goes_deeper(before, node, inside) else None
        if deepest is None:
            return [self._step(node, before, free)]
        down = [before, *self._down(before, deepest)]
        up = list(self._up(deepest, node, inside))
        steps, rest = self._along([*down, *up], free)
        while among := [k for k, step in enumerate(up) if self._stands_among(step, rest)]:
            up = up[: among[0]]
            steps, rest = self._along([*down, *up], free)
        inner = [detour for step in steps for detour in self._again(step)]
        return [*inner, self._step(node, (up or down)[-1], rest)]

    def _step(self, node: int | None, before: int, contents: list[int]) -> Step:
        if node is None:
            return Step(max(self.graph.outputs), before, contents, outputs=True)
        return Step(node, before, contents)

    def _inside(self, before: int, node: int | None) -> list[int]:
        """What lies between, `node` included."""
        ends = [o for o in self.graph.outputs if self.graph[o].dynamic] if node is None else [node]
        return sorted({i for end in ends for i in self.graph.between(before, end) if self.graph[i].dynamic})

    def _again(self, step: Step) -> list[Step]:
        """A step on the way down may go around a deeper stage itself."""
        if not any(i in self.units for i in self._inside(step.before, step.node)[:-1]):
            return [step]
        return self._detour(step.before, step.node)

    def _goes_deeper(self, before: int, node: int | None, inside: list[int]) -> bool:
        """Whether a coarser grid than the one at the end (at the beginning, if there is none) lies on the way."""
        if node is None:
            return len(inside) > 0
        end = self._points(node) or self._points(before)
        works = [i for i in inside if i in self.units or (i not in self.covered and self._works(i))]
        if end is None or in_one_block(self.model, [self.graph[i].site.path for i in works if i != node]):
            return False
        return any((points := self._points(i)) is not None and points < end for i in works)

    def _works(self, node: int) -> bool:
        return self.graph[node].name in HEAVY | POOLS

    def _points(self, node: int) -> int | None:
        layout = self.layouts[node]
        return layout.points if layout is not None else None

    def _deepest(self, before: int, node: int | None, inside: list[int]) -> int | None:
        """Where the way down ends: on the coarsest grid, the end of the longest chain of units. Without units, of the
        tensors that everything in an output passes through; if there is no output but a tensor where sides
        meet, the first one on that grid."""
        ends = [i for i in inside if i in self.units]
        if not ends and node is None:
            outputs = [o for o in self.graph.outputs if o in inside]
            ends = sorted({i for output in outputs for i in self._down(before, output)})
        elif not ends:
            works = [i for i in inside if i not in self.covered and self._works(i)]
            return min(works, key=lambda i: (self._points(i) or math.inf, i), default=None)
        chains = {end: len(set(self._down(before, end)) & set(ends)) for end in ends}
        return min(ends, key=lambda end: (self._points(end) or math.inf, -chains[end]), default=None)

    def _down(self, before: int, deepest: int) -> list[int]:
        """What everything that leads from `before` to `deepest` passes through."""
        chain = [deepest]
        while (above := self.graph.dominators[chain[-1]]) > before:
            chain.append(above)
        return chain[::-1]

    def _up(self, deepest: int, node: int | None, inside: list[int]) -> Iterator[int]:
        """What everything that comes of `deepest` passes through before it reaches `node`."""
        reached = [i for i in inside if self.graph.descends(i, deepest) and i != node]
        final = len(self.graph.nodes)  # stands for what comes after all of them
        nearest = {final: final}
        wanted = {*reached, deepest}
        for i in sorted(wanted, reverse=True):
            users = [u if u in wanted else final for u in self.graph.users[i] if u in wanted or u == node]
            users += [final] if node is None and i in self.graph.outputs else []
            nearest[i] = reduce(partial(_meeting_point, nearest), users) if users else final
        step = nearest[deepest]
        while step != final:
            yield step
            step = nearest[step]

    def _along(self, way: list[int], free: list[int]) -> tuple[list[Step], list[int]]:
        """The steps along `way`, each with what leads to it and was not in an earlier one; and what is left."""
        left, steps = set(free), []
        for before, node in pairwise(way):
            contents = [i for i in sorted(left) if i == node or self.graph.descends(node, i)]
            left -= set(contents)
            steps.append(Step(node, before, contents))
        return steps, sorted(left)

    def _stands_among(self, node: int, rest: list[int]) -> bool:
        """Whether `node`, on the way up, is in one module with several of `rest`, which are part of the last step.

        It is then part of that step, too, and no step of its own.
        """
        groups: dict[str, set[str]] = {}
        for i in rest:
            if self.graph[i].name in HEAVY:
                path = self.graph[i].site.path
                groups.setdefault(path.partition(".")[0], set()).add(path)
        path = self.graph[node].site.path
        around = [common_path(paths) for paths in groups.values() if len(paths) > 1]
        return any(path == module or path.startswith(f"{module}.") for module in around)


def _meeting_point(nearest: dict[int, int], a: int, b: int) -> int:
    """The first node that all paths from `a` and `b` to the end have in common."""
    while a != b:
        a, b = (nearest[a], b) if a < b else (a, nearest[b])
    return a
