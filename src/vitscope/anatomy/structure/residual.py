"""Find the residual additions of a graph: where a branch meets the stream it left.

An addition of two tensors of equal shape is a candidate where one operand descends from the other (an
identity shortcut), or where both descend from the same tensor (a projection shortcut). Candidates inside
the branch of another one are its inner workings and dropped, unless that other one is a long skip around
several whole residual units, or joins a map with what comes back up from a deeper stage (feature pyramids,
decoders): then it is the skip that is dropped.
"""

from dataclasses import dataclass, field

import torch
from torch import nn

from vitscope.anatomy.structure.layout import Layouts
from vitscope.anatomy.structure.naming import in_one_block
from vitscope.anatomy.watch.graph import Graph, Node
from vitscope.anatomy.watch.operations import (
    ADDITIONS,
    HEAVY,
    LINEAR_MAPS,
    POINTWISE,
    POOLS,
    REARRANGE,
    TRANSFORMS,
    UPSAMPLING,
    mixes_positions,
)
from vitscope.anatomy.watch.places import thinned

# An addition around at least so many residual additions in a row is a skip, not a unit.
LONG_IDENTITY_SKIP = 3
LONG_PROJECTION_SKIP = 2


@dataclass
class Addition:
    """A residual addition: its node, the operands, and the nodes of its branch."""

    node: int
    stream: int
    branch: int
    entry: int  # where the branch leaves the stream
    identity: bool  # the stream operand is what the branch started from
    region: list[int] = field(default_factory=list)  # the branch's nodes
    shortcut: list[int] = field(default_factory=list)  # nodes of a projection shortcut
    stream_operand: int = 0


def find_additions(graph: Graph, layouts: Layouts, model: nn.Module) -> list[Addition]:
    """The residual additions that are units, in execution order."""
    candidates: dict[int, Addition] = {}
    for node in graph.nodes:
        if node.name in ADDITIONS and node.dynamic and graph.useful >> node.index & 1:
            addition = _candidate(graph, node, candidates)
            if addition is not None and _does_something(graph, layouts, addition):
                candidates[node.index] = addition
    necks = {n for n, a in candidates.items() if _is_top_down(graph, layouts, model, a, candidates)}
    return _outermost(graph, {n: addition for n, addition in candidates.items() if n not in necks})


def has_stream(graph: Graph, addition: Addition) -> bool:
    """Whether a stream goes on without the branch: the shortcut does nothing, pools, or is one linear map where the
    branch has several. Of two sides that do the same amount of work neither is the stream."""
    shortcut, branch = (len(_heavy(graph, nodes)) for nodes in (addition.shortcut, addition.region))
    return shortcut == 0 or (shortcut == 1 and branch > 1)


def _heavy(graph: Graph, nodes: list[int]) -> list[int]:
    return [i for i in nodes if graph[i].name in HEAVY]


def _candidate(graph: Graph, node: Node, known: dict[int, Addition]) -> Addition | None:
    if len(node.inputs) != 2 or any(graph[i].shape != node.shape for i in node.inputs):
        return None
    a, b = node.inputs
    if a == b or len(node.shape) < 3:
        return None
    for stream, branch in ((a, b), (b, a)):
        if graph.descends(branch, stream):
            region = [i for i in graph.between(stream, branch) if graph[i].dynamic]
            return Addition(node.index, stream, branch, stream, True, region, [], node.inputs.index(stream))
    return _projection(graph, node, a, b, known) if graph[a].dynamic and graph[b].dynamic else None


def _projection(graph: Graph, node: Node, a: int, b: int, known: dict[int, Addition]) -> Addition | None:
    entry = graph.meeting_point(a, b)
    # two stems added up, or parallel convolutions, are a step or two from the image
    far = entry == graph.input and len(_heavy(graph, graph.between(entry, max(a, b)))) > 4
    if far and graph[entry].shape[-2:] != graph[a].shape[-2:]:
        return None
    sides = {
        side: [i for i in graph.between(entry, side, outside=other) if graph[i].dynamic]
        for side, other in ((a, b), (b, a))
    }
    if a not in known and b not in known and _is_one_convolution(graph, sides[a], sides[b]):
        return None
    # The stream is the side that is itself a sum already, else the one on which less is done.
    stream, branch = sorted((a, b), key=lambda side: (side not in known, _work(graph, sides[side])))
    operand = node.inputs.index(stream)
    return Addition(node.index, stream, branch, entry, False, sides[branch], sides[stream], operand)


def _is_one_convolution(graph: Graph, *sides: list[int]) -> bool:
    """Parallel linear maps of one tensor, added up (RepVGG, MobileOne): one convolution, as it is trained."""
    nodes = [i for side in sides for i in side]
    linear = all(graph[i].name in LINEAR_MAPS for i in nodes)
    scaled_copy = any(all(graph[i].name in ("mul", "mul_") for i in side) for side in sides)
    return linear and not scaled_copy and _in_a_row(graph, _heavy(graph, nodes)) == 1


def _work(graph: Graph, nodes: list[int]) -> tuple[int, int]:
    """How much mixing of positions, then how many heavy operations: what tells a branch from a projection."""
    heavy = _heavy(graph, nodes)
    return sum(mixes_positions(graph, graph[i]) for i in heavy), len(heavy) * 1000 + len(nodes)


def _does_something(graph: Graph, layouts: Layouts, addition: Addition) -> bool:
    """The branch is more than an activation written out (x + relu(x)) or a change of shape that ends where it began."""
    names = {graph[i].name for i in addition.region}
    if names & (HEAVY | POOLS | TRANSFORMS) or names - POINTWISE - REARRANGE:
        return True
    return bool(names & REARRANGE) and ends_elsewhere(layouts, addition.stream, addition.branch)


def ends_elsewhere(layouts: Layouts, start: int, end: int) -> bool:
    """Whether each point has at `end` what was at another one at `start`: a permutation, a shift by slices."""
    before, after = layouts[start], layouts[end]
    if before is None or after is None or before.grid != after.grid:
        return False
    first, last = thinned(before.positions), thinned(after.positions)
    return first.shape != last.shape or not torch.equal(first, last)


def _is_top_down(
    graph: Graph, layouts: Layouts, model: nn.Module, addition: Addition, candidates: dict[int, Addition]
) -> bool:
    """The branch goes down to a deeper stage and comes back up: around residual units of that stage, or to meet a
    lateral projection. Without either, or inside a block, it is a unit that works on a smaller map."""
    raised = [i for i in addition.region if graph[i].name in UPSAMPLING and _is_finer(graph, i)]
    heavy = [graph[i].site.path for i in _heavy(graph, addition.region)]
    if not raised or in_one_block(model, heavy):
        return False
    start, end = layouts[addition.entry], layouts[addition.node]
    if start is None or end is None or start.points < end.points:
        return False  # the branch starts on a coarse map and ends on a fine one
    around = any(i in candidates and any(graph.descends(r, i) for r in raised) for i in addition.region)
    return around or bool(_heavy(graph, addition.shortcut))


def _is_finer(graph: Graph, node: int) -> bool:
    before, after = graph[graph[node].inputs[0]].shape, graph[node].shape
    return len(before) == len(after) and before[-2:] < after[-2:]


def _outermost(graph: Graph, candidates: dict[int, Addition]) -> list[Addition]:
    """Drop what lies in another one's branch, and the long skips around others."""
    members = {n: frozenset(addition.region) for n, addition in candidates.items()}
    kept: dict[int, Addition] = {}
    for index in sorted(candidates, reverse=True):  # an outer addition comes after what it encloses
        if any(index in members[outer] for outer in kept):
            continue
        inner = [i for i in candidates if i in members[index] and candidates[i].identity]
        long_skip = LONG_IDENTITY_SKIP if candidates[index].identity else LONG_PROJECTION_SKIP
        if _in_a_row(graph, inner) < long_skip:
            kept[index] = candidates[index]
    return [kept[index] for index in sorted(kept)]


def _in_a_row(graph: Graph, nodes: list[int]) -> int:
    """Length of the longest chain of descent among `nodes`."""
    longest: dict[int, int] = {}
    for node in sorted(nodes):
        longest[node] = 1 + max((longest[m] for m in longest if graph.descends(node, m)), default=0)
    return max(longest.values(), default=0)
