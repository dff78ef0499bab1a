"""Cut a graph into units: the residual additions, and the stretches of the trunk before, between and after them.

The trunk is what everything passes through, or the way to the deepest stage and back where several stages are
used. A stretch of it that no branch covers is cut into pieces, one per block of the model: the stem before the
first unit, subsampling and plain convolutions between, the head at the end. Norms and activations alone make no
piece. Models without residual additions (VGG, DenseNet, Inception) are nothing but such pieces.
"""

from dataclasses import dataclass, field

from torch import nn

from vitscope.anatomy.structure.activations import blocks_around, own_activations
from vitscope.anatomy.structure.layout import Layouts
from vitscope.anatomy.structure.naming import block_path, common_path, is_container, own_children, own_class
from vitscope.anatomy.structure.residual import Addition, find_additions
from vitscope.anatomy.structure.spine import Step, find_steps
from vitscope.anatomy.taps.map_view import map_view
from vitscope.anatomy.watch.graph import Graph
from vitscope.anatomy.watch.operations import ACTIVATIONS, HEAVY, NORMS, POOLS


@dataclass
class Segment:
    """A stretch of the graph that becomes a unit."""

    end: int  # the node that is the stream after it
    start: int  # the node before it
    nodes: list[int]
    addition: Addition | None = None
    kind: str | None = None  # where the position decides: stem, head
    owned: list[int] = field(default_factory=list)  # nodes plus those of a projection shortcut
    worked: int | None = None  # where its own norm and activation come before the head: the node before those
    read: int | None = None  # the activation after an addition, where that is the unit's last step


def find_segments(graph: Graph, layouts: Layouts, model: nn.Module) -> list[Segment]:
    """Cut the graph into the segments that become units, in the order in which they are executed."""
    additions = find_additions(graph, layouts, model)
    read = own_activations(graph, model, additions)
    units = []
    for a in additions:
        owned = [*a.region, *_own_shortcut(a, additions)]
        units.append(Segment(a.node, a.entry, a.region, a, owned=owned, read=read.get(a.node)))
    covered = {i for unit in units for i in (*unit.owned, unit.end)}
    steps = find_steps(graph, layouts, model, {unit.end for unit in units}, covered)
    rest = steps.pop() if steps and steps[-1].outputs else None
    gaps = _Gaps(graph, layouts, model, units)
    segments: list[Segment] = []
    gap: list[Step] = []
    pending = sorted(units, key=lambda unit: unit.end)
    for step in steps:
        while pending and pending[0].end <= step.node:
            segments += gaps.pieces(gaps.before_the_block_of(pending[0], gap), first=not segments)
            gap = []
            segments.append(pending.pop(0))
        if step.node not in covered:
            gap.append(step)
    segments += pending
    segments += gaps.pieces(gap, first=not segments, last=True)
    return segments if rest is None else _with_outputs(graph, segments, rest)


def _own_shortcut(addition: Addition, additions: list[Addition]) -> list[int]:
    """Nodes of a projection shortcut, unless the shortcut is a sum that is a unit of its own."""
    taken = {i for other in additions if other is not addition for i in (*other.region, other.node)}
    return [i for i in addition.shortcut if i not in taken]


def _with_outputs(graph: Graph, segments: list[Segment], rest: Step) -> list[Segment]:
    """What makes the outputs, where there are several, of what comes before is the head, or part of it."""
    if not any(graph[i].name in HEAVY for i in rest.contents):
        return segments
    start, nodes = rest.before, rest.contents
    if segments and segments[-1].kind == "head":
        head = segments.pop()
        start, nodes = head.start, [*head.nodes, *nodes]
    return [*segments, Segment(rest.node, start, nodes, kind="head", owned=nodes)]


class _Gaps:
    """Cuts the steps between residual units into pieces."""

    def __init__(self, graph: Graph, layouts: Layouts, model: nn.Module, units: list[Segment]) -> None:
        self.graph, self.layouts, self.model = graph, layouts, model
        # of the blocks that hold residual units: what such a class makes before the first unit is no stem
        self.block_classes: set[type] = set()
        for unit in units:
            path = block_path(common_path(graph[i].site.path for i in unit.nodes if graph[i].name in HEAVY))
            if path and not is_container(model.get_submodule(path)):
                self.block_classes.add(own_class(model.get_submodule(path)))

    def before_the_block_of(self, unit: Segment, gap: list[Step]) -> list[Step]:
        """The steps of a gap without the norms and activations at its end that run in the next unit's block: a
        pre-activation network whose first block projects its shortcut passes everything through them."""
        light = self._after_the_last_work(gap, len(gap))
        if light == 0 or unit.addition is None or unit.addition.identity:
            return gap
        blocks = blocks_around(self.graph, self.model, unit.end)
        blocks = [call for call in blocks if call.begin > gap[light - 1].node]
        inside = [k for k in range(light, len(gap)) if any(gap[k].node in call for call in blocks)]
        names = {self.graph[i].name for k in inside for i in gap[k].contents}
        return gap[: inside[0]] if names & (ACTIVATIONS | NORMS) else gap

    def pieces(self, gap: list[Step], *, first: bool, last: bool = False) -> list[Segment]:
        """Group the steps of a gap by the block they stand in; light steps go along with what came before them."""
        pieces: list[Segment] = []
        blocks: list[str] = []
        for position, step in enumerate(gap):
            if last and self._map_is_over(gap[0].before, gap[position:]):
                steps = gap[self._where_the_head_begins(gap, position) :]
                nodes = [i for s in steps for i in s.contents]
                head = Segment(gap[-1].node, steps[0].before, nodes, kind="head")
                if pieces:
                    pieces[-1].end = min(pieces[-1].end, head.start)
                    pieces[-1].worked = gap[self._after_the_last_work(gap, position) - 1].node
                pieces.append(head)
                break
            if self._significant(step):
                block = self._block(step)
                if not pieces or block != blocks[-1]:
                    start = gap[0].before if not pieces else pieces[-1].end
                    pieces.append(Segment(step.node, start, []))
                    blocks.append(block)
            if pieces:
                pieces[-1].end = step.node
                pieces[-1].nodes += step.contents
        if first:
            pieces = self._with_one_stem(pieces, blocks)
        for piece in pieces:
            piece.owned = piece.nodes
        return pieces

    def _with_one_stem(self, pieces: list[Segment], blocks: list[str]) -> list[Segment]:
        """What comes before the first block is one stem."""
        if not pieces or pieces[0].kind == "head":
            return pieces
        stem, *rest = pieces
        stem.kind = "stem"
        for block in blocks[1:]:
            module = self.model.get_submodule(block)
            if rest[0].kind == "head" or own_class(module) in self.block_classes or not self.block_classes:
                break
            stem.end = rest[0].end
            stem.nodes += rest.pop(0).nodes
        return [stem, *rest]

    def _where_the_head_begins(self, gap: list[Step], over: int) -> int:
        """Position of the head's first step, where the map is over at `over`.

        Norms just before belong to the head. Where a convolution stands in the gap, they and the activations after it
        are that piece's, as they are after any other piece; but for a norm in the head's own module.
        """
        begin = self._after_the_last_work(gap, over)
        if begin == 0:
            return 0
        graph = self.graph
        work = {graph[i].site.path for step in gap[over:] for i in step.contents if graph[i].name in HEAVY}
        head = common_path(work) if len(work) > 1 else "".join(work).rpartition(".")[0]
        for position in range(over, begin, -1):
            contents = [graph[i] for i in gap[position - 1].contents]
            activates = any(node.name in ACTIVATIONS for node in contents)
            norms = [node.site.path for node in contents if node.name in NORMS]
            if activates or any(not head or not path.startswith(f"{head}.") for path in norms):
                return position
        return begin

    def _after_the_last_work(self, gap: list[Step], over: int) -> int:
        """Position of the first of the light steps, norms and the like, before `over`."""
        while over > 0 and not self._significant(gap[over - 1]):
            over -= 1
        return over

    def _significant(self, step: Step) -> bool:
        if any(self.graph[i].name in HEAVY for i in step.contents):
            return True
        before, after = self.layouts[step.before], self.layouts[step.node]
        return before is not None and after is not None and before.grid != after.grid

    def _block(self, step: Step) -> str:
        """The block a step belongs to: of a class that makes residual units elsewhere, or numbered, or around it."""
        nodes = [self.graph[i] for i in step.contents]
        working = [n.site.path for n in nodes if n.name in HEAVY | POOLS] or [n.site.path for n in nodes]
        path = common_path(working)
        parts = path.split(".")
        for depth in range(1, len(parts) + 1):
            outer = ".".join(parts[:depth])
            if outer and own_class(self.model.get_submodule(outer)) in self.block_classes:
                return outer
        if any(part.isdigit() for part in parts):
            return block_path(path)
        is_leaf = path != "" and not own_children(self.model.get_submodule(path))
        return path.rpartition(".")[0] or path if is_leaf else path

    def _map_is_over(self, start: int, rest: list[Step]) -> bool:
        """No step from here on has a map again; one point where there were many is none (VGG's first dense layer)."""
        before = self.layouts[start]
        was_one_point = before is not None and before.points == 1
        views = (map_view(self.layouts[step.node], self.graph.batch) for step in rest)
        return not any(view is not None and (view.shape[1:] != (1, 1) or was_one_point) for view in views)
