"""Cut a graph into units: the residual additions, and the stretches of the trunk before, between and after
them.

The trunk is what everything passes through, or the way to the deepest stage and back where several stages are
used. A stretch of it that no branch covers is cut into pieces, one per block of the model: the stem before the
first unit, subsampling and plain convolutions between, the head at the end. Norms and activations alone make no
piece. Models without residual additions (VGG, DenseNet, Inception) are nothing but such pieces.
"""

from dataclasses import dataclass, field

from torch import nn

from vitscope.anatomy.structure.following_activation import ACTIVATIONS
from vitscope.anatomy.structure.layout import Layouts
from vitscope.anatomy.structure.naming import block_path, common_path, is_container, own_children, own_class
from vitscope.anatomy.structure.residual import HEAVY, POOLS, Addition, find_additions
from vitscope.anatomy.structure.spine import Step, find_steps
from vitscope.anatomy.taps.map_view import MapView, map_view
from vitscope.anatomy.watch.activation_owner import blocks_around, own_activations
from vitscope.anatomy.watch.graph import Graph

NORMS = frozenset("batch_norm layer_norm group_norm instance_norm rms_norm local_response_norm".split())


@dataclass
class Segment:
    """The makings of a unit."""

    end: int  # the node that is the stream after it
    start: int  # the node before it
    nodes: list[int]
    addition: Addition | None = None
    kind: str | None = None  # where the position decides: stem, head
    owned: list[int] = field(default_factory=list)  # nodes plus those of a projection shortcut
    worked: int | None = None  # where its own norm and activation come before the head: the node before those
    read: int | None = None  # the activation after an addition, where that is the unit's last step


def find_segments(graph: Graph, layouts: Layouts, model: nn.Module) -> list[Segment]:
    """All segments in execution order."""
    additions = find_additions(graph, layouts, model)
    activations = own_activations(graph, model, additions)
    units = [
        Segment(
            a.node,
            a.entry,
            a.region,
            a,
            owned=[*a.region, *_own_shortcut(a, additions)],
            read=activations.get(a.node),
        )
        for a in additions
    ]
    covered = {i for unit in units for i in unit.owned} | {unit.end for unit in units}
    segments: list[Segment] = []
    views = _Views(graph, layouts)
    block_classes = _block_classes(graph, model, units)
    pending = sorted(units, key=lambda unit: unit.end)
    gap: list[Step] = []
    steps = find_steps(graph, layouts, model, {unit.end for unit in units}, covered)
    rest = steps.pop() if steps and steps[-1].outputs else None
    for step in steps:
        while pending and pending[0].end <= step.node:
            gap = _before_the_block_of(graph, model, views, gap, pending[0])
            if gap:
                segments += _pieces(
                    graph, model, views, gap, first=not segments, last=False, classes=block_classes
                )
                gap = []
            segments.append(pending.pop(0))
        if step.node not in covered:
            gap.append(step)
    segments += pending
    segments += _pieces(graph, model, views, gap, first=not segments, last=True, classes=block_classes)
    return segments if rest is None else _with_outputs(graph, segments, rest)


def _before_the_block_of(
    graph: Graph, model: nn.Module, views: "_Views", gap: list[Step], unit: Segment
) -> list[Step]:
    """The steps of a gap without the norms and activations at its end that run in the next unit's block: a
    pre-activation network whose first block projects its shortcut passes everything through them."""
    working = [position for position, step in enumerate(gap) if _significant(graph, views, step)]
    if not working or unit.addition is None or unit.addition.identity:
        return gap
    light = working[-1] + 1
    blocks = [call for call in blocks_around(graph, model, unit.end) if call.begin > gap[light - 1].node]
    inside = [
        position
        for position, step in enumerate(gap[light:], light)
        if any(call.begin <= step.node < call.end for call in blocks)
    ]
    prepares = any(graph[i].name in ACTIVATIONS | NORMS for k in inside for i in gap[k].contents)
    return gap[: inside[0]] if prepares else gap


def _with_outputs(graph: Graph, segments: list[Segment], rest: Step) -> list[Segment]:
    """What makes the outputs, where there are several, of what comes before is the head, or part of it."""
    if not any(graph[i].name in HEAVY for i in rest.contents):
        return segments
    if segments and segments[-1].kind == "head":
        head = segments.pop()
        start, nodes = head.start, [*head.nodes, *rest.contents]
    else:
        start, nodes = rest.before, rest.contents
    return [*segments, Segment(rest.node, start, nodes, kind="head", owned=nodes)]


def _own_shortcut(addition: Addition, additions: list[Addition]) -> list[int]:
    """Nodes of a projection shortcut, unless the shortcut is a sum that is a unit of its own."""
    taken = {i for other in additions if other is not addition for i in (*other.region, other.node)}
    return [i for i in addition.shortcut if i not in taken]


class _Views:
    """Map views of nodes, remembered."""

    def __init__(self, graph: Graph, layouts: Layouts) -> None:
        self.graph, self.layouts = graph, layouts
        self._known: dict[int, MapView | None] = {}

    def __getitem__(self, node: int) -> MapView | None:
        if node not in self._known:
            self._known[node] = map_view(self.layouts[node], self.graph.batch)
        return self._known[node]

    def grid(self, node: int) -> tuple[int, int] | None:
        layout = self.layouts[node]
        return layout.grid if layout is not None else None


def _block_classes(graph: Graph, model: nn.Module, units: list[Segment]) -> set[type]:
    """Classes of the blocks that hold residual units: what such a class makes before the first unit is no
    stem."""
    classes = set()
    for unit in units:
        path = block_path(common_path(graph[i].site.path for i in unit.nodes if graph[i].name in HEAVY))
        module = model.get_submodule(path) if path else model
        if not is_container(module) and path:
            classes.add(own_class(module))
    return classes


def _pieces(
    graph: Graph,
    model: nn.Module,
    views: _Views,
    gap: list[Step],
    *,
    first: bool,
    last: bool,
    classes: set[type],
) -> list[Segment]:
    """Group the steps of a gap by the block they stand in; light steps go along with what came before
    them."""
    pieces: list[Segment] = []
    blocks: list[str] = []
    for position, step in enumerate(gap):
        if last and _map_is_over(views, gap[0].before, gap[position:]):
            rest = gap[position:]
            steps = gap[_where_the_head_begins(graph, views, gap, position) :]
            head = Segment(
                rest[-1].node, steps[0].before, [i for s in steps for i in s.contents], kind="head"
            )
            if pieces and pieces[-1].end > head.start:
                pieces[-1].end = head.start
            if pieces:
                pieces[-1].worked = gap[_after_the_last_work(graph, views, gap, position) - 1].node
            pieces.append(head)
            break
        if _significant(graph, views, step):
            block = _block(graph, model, step, classes)
            if not pieces or block != blocks[-1]:
                start = gap[0].before if not pieces else pieces[-1].end
                pieces.append(Segment(step.node, start, []))
                blocks.append(block)
        if pieces:
            pieces[-1].end = step.node
            pieces[-1].nodes += step.contents
    if first:
        pieces = _merge_stem(model, pieces, blocks, classes)
    for piece in pieces:
        piece.owned = piece.nodes
    return pieces


def _where_the_head_begins(graph: Graph, views: _Views, gap: list[Step], over: int) -> int:
    """Position of the head's first step, where the map is over at `over`.

    Norms just before belong to the head. Where a convolution stands in the gap, they and the activations after it are
    that piece's, as they are after any other piece; but for a norm in the head's own module.
    """
    begin = _after_the_last_work(graph, views, gap, over)
    if begin == 0:
        return 0
    work = {graph[i].site.path for step in gap[over:] for i in step.contents if graph[i].name in HEAVY}
    head = common_path(work) if len(work) > 1 else "".join(work).rpartition(".")[0]
    for position in range(over, begin, -1):
        contents = [graph[i] for i in gap[position - 1].contents]
        activates = any(node.name in ACTIVATIONS for node in contents)
        norms = [node.site.path for node in contents if node.name in NORMS]
        if activates or any(not head or not path.startswith(f"{head}.") for path in norms):
            return position
    return begin


def _after_the_last_work(graph: Graph, views: _Views, gap: list[Step], over: int) -> int:
    """Position of the first of the light steps, norms and the like, before `over`."""
    while over > 0 and not _significant(graph, views, gap[over - 1]):
        over -= 1
    return over


def _block(graph: Graph, model: nn.Module, step: Step, classes: set[type]) -> str:
    """Path of the block a step belongs to: of a class that makes residual units elsewhere, or numbered, or
    the module around it."""
    names = [graph[i] for i in step.contents]
    working = [n.site.path for n in names if n.name in HEAVY | POOLS] or [n.site.path for n in names]
    path = common_path(working)
    parts = path.split(".")
    for depth in range(1, len(parts) + 1):
        outer = ".".join(parts[:depth])
        if outer and own_class(model.get_submodule(outer)) in classes:
            return outer
    if any(part.isdigit() for part in parts):
        return block_path(path)
    is_leaf = path != "" and not own_children(model.get_submodule(path))
    return path.rpartition(".")[0] or path if is_leaf else path


def _map_is_over(views: _Views, start: int, rest: list[Step]) -> bool:
    """No step from here on has a map again; one point, where there were many before, is none either (VGG's
    first dense layer)."""
    start_grid = views.grid(start)
    for step in rest:
        view = views[step.node]
        if view is not None and (view.shape[1:] != (1, 1) or start_grid == (1, 1)):
            return False
    return True


def _significant(graph: Graph, views: _Views, step: Step) -> bool:
    if any(graph[i].name in HEAVY for i in step.contents):
        return True
    before, after = views.grid(step.before), views.grid(step.node)
    return before is not None and after is not None and before != after


def _merge_stem(
    model: nn.Module, pieces: list[Segment], blocks: list[str], classes: set[type]
) -> list[Segment]:
    """What comes before the first block is one stem."""
    if not pieces or pieces[0].kind == "head":
        return pieces
    stem, rest = pieces[0], pieces[1:]
    stem.kind = "stem"
    for piece, block in zip(list(rest), blocks[1:], strict=False):
        module = model.get_submodule(block) if block else model
        if piece.kind == "head" or own_class(module) in classes or not classes:
            break
        stem.end = piece.end
        stem.nodes += piece.nodes
        rest.pop(0)
    return [stem, *rest]
