"""Where a step can be put into a model: the tensors that modules take and give.

A port is an argument or an output of a module. A residual branch, written as

    stream + (front -> first linear map -> ... -> mid -> last linear map -> end)

has three of them. The largest module that fits is named: the end of an MLP is the output of the MLP, not of its
last layer, so that what is put there comes after the MLP's own dropout. A module that runs more than once in a pass
has none: units that share one cannot be changed one by one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from vitscope.anatomy.structure.dissect import Dissection
from vitscope.anatomy.structure.naming import is_list
from vitscope.anatomy.structure.residual import Addition
from vitscope.anatomy.structure.unit import Unit
from vitscope.anatomy.taps.map_view import MapView, map_view
from vitscope.anatomy.watch.graph import ModuleCall, Slot
from vitscope.anatomy.watch.operations import CONVOLUTIONS, HEAVY, KEEP_ZERO, REARRANGE
from vitscope.core.errors import UnsupportedModel

Place = Literal["front", "mid", "end"]
Side = Literal["input", "output"]


@dataclass(frozen=True)
class Port:
    """An argument or an output of a module, and how the tensor there is laid out."""

    module: str  # path
    side: Side
    slots: tuple[Slot, ...]  # which arguments or outputs; the same tensor may be given twice
    node: int  # of the graph it was found in
    shape: tuple[int, ...]  # in the pass that was watched
    channel_axis: int
    batch_axis: int = 0
    parts_per_image: int = 1  # windows that share the batch axis with the images
    view: MapView | None = None  # how to read it as a map; None where it is none

    @property
    def channels(self) -> int:
        """Width of the tensor."""
        return self.shape[self.channel_axis]


def branch_port(body: Dissection, unit: Unit, place: Place) -> Port:
    """The port at the front, in the middle or at the end of a residual unit's branch."""
    addition = _addition(body, unit)
    heavy = [i for i in addition.region if body.graph[i].name in HEAVY]
    if not heavy:
        raise UnsupportedModel(
            f"unit '{unit.name}' ({unit.kind}) has no linear map in its branch; choose units that have one "
            "(vitscope anatomy lists them)"
        )
    if place == "end":
        return _end(body, unit, addition, heavy[-1])
    region = {*addition.region, addition.entry}
    for node in _way_up(body, body.graph[heavy[0 if place == "front" else -1]].inputs[0], REARRANGE):
        if node not in region:
            break
        # what is put before the first map must reach all that read the tensor, but not the stream itself
        sides: tuple[Side, ...] = ("input",) if node == addition.entry else ("input", "output")
        found = port_at(body, node, sides, region)
        if found is not None:
            return found
    raise _no_port(body, unit, f"takes the tensor at the {place}")


def silencing_port(body: Dissection, unit: Unit) -> Port:
    """The last port of a residual unit's branch: zero there means that the stream passes by unchanged."""
    addition = _addition(body, unit)
    region = {*addition.region, addition.entry}
    for node in _way_up(body, addition.branch, KEEP_ZERO):
        if node not in region or node == addition.entry:
            break
        found = port_at(body, node, ("output",), region)
        if found is not None:
            return found
    raise _no_port(body, unit, "gives what is added to the stream")


def _way_up(body: Dissection, node: int, names: frozenset[str]) -> Iterator[int]:
    """A node and what it was made of, as long as it was by operations of these names out of one tensor."""
    yield node
    while body.graph[node].name in names and len(made_of := body.graph.dynamic_inputs(body.graph[node])) == 1:
        node = made_of[0]
        yield node


def port_at(
    body: Dissection,
    node: int,
    sides: Iterable[Side] = ("output", "input"),
    inside: set[int] | None = None,
) -> Port | None:
    """The port at which a tensor is handed on: of the largest module that makes, or else takes, it.

    Of `sides` the first that has one counts. `inside`: the module must make and give nothing but these nodes.
    """
    for side in sides:
        calls = [c for c in _called_once(body) if node in _slots(c, side).values()]
        calls = [c for c in calls if inside is None or _stays_inside(c, inside)]
        if side == "input":
            calls = [c for c in calls if _takes_alone(body, c, node, inside)]
        else:
            calls = [c for c in calls if not _read_inside(body, c, node)]
        if not calls:
            continue
        makers = [c for c in calls if side == "input" or node in c]
        # several pass it on unchanged: of those that make it the largest, of the others the first
        best = max(makers, key=lambda c: _preference(c, side, node)) if makers else calls[0]
        return _port(body, best, side, node)
    return None


def _preference(call: ModuleCall, side: str, node: int) -> tuple[bool, int, int]:
    """The largest; but rather one that does not give it by name, which a caller may ask it not to."""
    named = any(n == node and isinstance(slot, str) for slot, n in _slots(call, side).items())
    return side == "input" or not named, call.end - call.begin, -call.path.count(".")


def block_call(body: Dissection, unit: Unit) -> ModuleCall:
    """The call of the smallest module that takes the stream before a unit and gives the stream after it."""
    addition = _addition(body, unit)
    fitting = [
        call
        for call in _called_once(body)
        if addition.node in call
        and any(n == addition.entry or body.graph.descends(addition.entry, n) for n in call.inputs.values())
        and all(i >= call.begin for i in addition.region if body.graph[i].dynamic)
        and any(n == addition.node or body.graph.descends(n, addition.node) for n in call.outputs.values())
    ]
    if not fitting:
        raise _no_port(body, unit, "holds it whole")
    return min(fitting, key=lambda c: (c.end - c.begin, -len(c.path)))


def _end(body: Dissection, unit: Unit, addition: Addition, last: int) -> Port:
    """The output of the unit's own module, or else the first port after the last linear map; in both an
    image's points must be together, not in windows."""
    stream = map_view(body.layouts[addition.node], body.graph.batch)
    wanted = stream.parts_per_image if stream is not None else 1
    region = {*addition.region, addition.entry}
    after = [i for i in addition.region if i == last or body.graph.descends(i, last)]
    own = [c for c in _called_once(body) if c.path == unit.module and _stays_inside(c, region)]
    outputs = [node for call in own for node in call.outputs.values() if node in after]
    for node in (*outputs, *sorted(after)):
        found = port_at(body, node, inside=region)
        if found is not None and found.parts_per_image == wanted:
            return found
    raise _no_port(body, unit, "gives the tensor at the end")


def _addition(body: Dissection, unit: Unit) -> Addition:
    addition = body.segment(unit).addition
    if addition is None:
        raise UnsupportedModel(
            f"unit '{unit.name}' ({unit.kind}) has no residual branch; choose units that have one "
            "(vitscope anatomy lists them)"
        )
    return addition


def _called_once(body: Dissection) -> list[ModuleCall]:
    """Containers are left out: what is put into them would become one of the things they hold."""
    counts = Counter(call.path for call in body.graph.calls)
    single = [call for call in body.graph.calls if counts[call.path] == 1 and call.path]
    return [call for call in single if not is_list(body.model.get_submodule(call.path))]


def _slots(call: ModuleCall, side: str) -> dict[Slot, int]:
    return call.inputs if side == "input" else call.outputs


def _stays_inside(call: ModuleCall, inside: set[int]) -> bool:
    return all(n in inside for n in (*call.inputs.values(), *call.outputs.values()))


def _takes_alone(body: Dissection, call: ModuleCall, node: int, inside: set[int] | None) -> bool:
    """Nobody else among those inside reads the tensor."""
    readers = [i for i in body.graph.users[node] if inside is None or i in inside]
    return all(i in call for i in readers)


def _read_inside(body: Dissection, call: ModuleCall, node: int) -> bool:
    """The module reads the tensor it gives itself (a pooler, say): what is put at its output comes too late."""
    return any(i in call for i in body.graph.readers(node))


def _port(body: Dissection, call: ModuleCall, side: Side, node: int) -> Port:
    slots = tuple(slot for slot, n in _slots(call, side).items() if n == node)
    tensor = body.graph[node]
    view = map_view(body.layouts[node], body.graph.batch)
    if view is not None:
        axes = (view.channel_axis, view.batch_axis, view.parts_per_image)
        return Port(call.path, side, slots, node, tensor.shape, *axes, view)
    names = {tensor.name, *(body.graph[user].name for user in body.graph.users[node])}
    channel_axis = 1 if names & CONVOLUTIONS else len(tensor.shape) - 1
    return Port(call.path, side, slots, node, tensor.shape, channel_axis)


def _no_port(body: Dissection, unit: Unit, what: str) -> UnsupportedModel:
    shared = why_shared(body, unit)
    if shared is not None:
        return UnsupportedModel(f"{shared}, or choose other units")
    return UnsupportedModel(
        f"no module of its own {what} of unit '{unit.name}' ({unit.kind}), so that nothing can be put there; "
        "give that step of the model an nn.Module (nn.Identity will do) or choose other units"
    )


def why_shared(body: Dissection, unit: Unit) -> str | None:
    """Why nothing can be put into a unit alone: its module runs several times in a pass; None where it does not."""
    counts = Counter(call.path for call in body.graph.calls)
    repeated = [call for call in body.graph.calls if call.path and counts[call.path] > 1]
    # innermost first
    paths = list(dict.fromkeys(call.path for call in repeated if _works_in(body, unit, call)))
    if not paths:
        return None
    module = unit.module if unit.module in paths else paths[0]
    units = [u for u in body.parts if u.module == unit.module and u.kind == unit.kind]
    if len(units) < 2:
        calls = [call for call in repeated if call.path == module]
        units = [u for u in body.parts if any(_works_in(body, u, call) for call in calls)]
    named = ", ".join(f"'{u.name}'" for u in units)
    times = "twice" if counts[module] == 2 else f"{counts[module]} times"
    return (
        f"the module '{module}' of unit '{unit.name}' ({unit.kind}) runs {times} in a pass (units "
        f"{named}), and what is put into it acts every time; give each its own copy "
        f"(copy.deepcopy of '{paths[-1]}')"
    )


def _works_in(body: Dissection, unit: Unit, call: ModuleCall) -> bool:
    return any(i in call and body.graph[i].name in HEAVY for i in body.segment(unit).nodes)
