"""Where a step can be put into a model: the tensors that modules take and give.

A port is an argument or an output of a module. A residual branch, written as

    stream + (front -> first linear map -> ... -> mid -> last linear map -> end)

has three of them. The largest module that fits is named: the end of an MLP is the output of the MLP, not of its
last layer, so that what is put there comes after the MLP's own dropout.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from vitscope.anatomy.structure.dissect import Dissection
from vitscope.anatomy.structure.layout import REARRANGE
from vitscope.anatomy.structure.naming import is_list
from vitscope.anatomy.structure.residual import CONVOLUTIONS, HEAVY, Addition
from vitscope.anatomy.structure.unit import Unit
from vitscope.anatomy.taps.map_view import MapView, map_view
from vitscope.anatomy.watch.graph import ModuleCall, Slot
from vitscope.anatomy.watch.shared_modules import why_shared
from vitscope.core.errors import UnsupportedModel

Place = Literal["front", "mid", "end"]
# operations that give zero for zero, so that a branch that ends in them can be silenced before them
KEEP_ZERO = frozenset(
    "mul __mul__ __rmul__ mul_ div dropout dropout_ view reshape permute transpose flatten unflatten contiguous "
    "__getitem__ narrow roll pad movedim squeeze unsqueeze type_as to float".split()
)


@dataclass(frozen=True)
class Port:
    """An argument or an output of a module, and how the tensor there is laid out."""

    module: str  # path
    side: Literal["input", "output"]
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
        raise UnsupportedModel(f"unit '{unit.name}' ({unit.kind}) has no linear map in its branch")
    if place == "end":
        return _end(body, unit, addition, heavy[-1])
    region = {*addition.region, addition.entry}
    node = body.graph[heavy[0] if place == "front" else heavy[-1]].inputs[0]
    while node in region:
        # what is put before the first map must reach all that read the tensor, but not the stream itself
        found = port_at(body, node, sides=("input",), inside=region)
        if found is None and node != addition.entry:
            found = port_at(body, node, sides=("output",), inside=region)
        if found is not None:
            return found
        dynamic = [i for i in body.graph[node].inputs if body.graph[i].dynamic]
        if body.graph[node].name not in REARRANGE or len(dynamic) != 1:
            break
        node = dynamic[0]
    raise _no_port(body, unit, f"takes the tensor at the {place}")


def silencing_port(body: Dissection, unit: Unit) -> Port:
    """The last port of a residual unit's branch: zero there means that the stream passes by unchanged."""
    addition = _addition(body, unit)
    node = addition.branch
    region = {*addition.region, addition.entry}
    while node in region and node != addition.entry:
        found = port_at(body, node, sides=("output",), inside=region)
        if found is not None:
            return found
        dynamic = [i for i in body.graph[node].inputs if body.graph[i].dynamic]
        if body.graph[node].name not in KEEP_ZERO or len(dynamic) != 1:
            break
        node = dynamic[0]
    raise _no_port(body, unit, "gives what is added to the stream")


def port_at(
    body: Dissection,
    node: int,
    sides: Iterable[Literal["input", "output"]] = ("output", "input"),
    inside: set[int] | None = None,
) -> Port | None:
    """The port at which a tensor is handed on: of the largest module that makes, or else takes, it.

    Args:
        body: The watched pass.
        node: The tensor.
        sides: Which sides of modules to look at, the better first.
        inside: The module must make and give nothing but these nodes; None: any module.
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
        makers = [c for c in calls if side == "input" or c.begin <= node < c.end]
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
        if call.begin <= addition.node < call.end
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
        raise UnsupportedModel(f"unit '{unit.name}' ({unit.kind}) has no residual branch")
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
    return all(call.begin <= i < call.end for i in readers)


def _read_inside(body: Dissection, call: ModuleCall, node: int) -> bool:
    """The module reads the tensor it gives itself (a pooler, say): what is put at its output comes too late."""
    readers = [i for i in body.graph.users[node] if body.graph.useful >> i & 1]
    return any(call.begin <= i < call.end for i in readers)


def _port(body: Dissection, call: ModuleCall, side: Literal["input", "output"], node: int) -> Port:
    slots = tuple(slot for slot, n in _slots(call, side).items() if n == node)
    tensor = body.graph[node]
    view = map_view(body.layouts[node], body.graph.batch)
    if view is not None:
        axes = (view.channel_axis, view.batch_axis, view.parts_per_image)
        return Port(call.path, side, slots, node, tensor.shape, *axes, view)
    convolution = tensor.name in CONVOLUTIONS or any(
        body.graph[user].name in CONVOLUTIONS for user in body.graph.users[node]
    )
    return Port(call.path, side, slots, node, tensor.shape, 1 if convolution else len(tensor.shape) - 1)


def _no_port(body: Dissection, unit: Unit, what: str) -> UnsupportedModel:
    shared = why_shared(body, unit)
    if shared is not None:
        return UnsupportedModel(f"{shared}, or choose other units")
    return UnsupportedModel(
        f"no module of its own {what} of unit '{unit.name}' ({unit.kind}), so that nothing can be put there; "
        "give that step of the model an nn.Module (nn.Identity will do) or choose other units"
    )
