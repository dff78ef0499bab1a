"""The ports at which a map enters a block and leaves it, where a step from map to map can be put."""

from contextlib import suppress

from vitscope.anatomy import Dissection, Unit
from vitscope.anatomy.structure.layout import REARRANGE
from vitscope.anatomy.taps.ports import Port, block_call, port_at
from vitscope.anatomy.watch.shared_modules import why_shared
from vitscope.core.errors import UnsupportedModel


def map_entering(body: Dissection, unit: Unit) -> Port:
    """The stream as the unit's block takes it, before a norm that shortcut and branch may share."""
    segment = body.segment(unit)
    nodes = [segment.start]
    if unit.residual:
        with suppress(UnsupportedModel):
            given = block_call(body, unit).inputs.values()
            nodes = [node for node in given if body.graph.descends(segment.end, node)]
    for node in nodes:
        found = _port_along(body, node)
        if found is not None:
            return found
    raise _no_place(body, unit, "enters")


def map_leaving(body: Dissection, unit: Unit) -> Port:
    """The map as the unit's block gives it, its last activation included; of a unit without a block, the last
    tensor before the head that is still that map."""
    end = body.segment(unit).end
    nodes = list(reversed([node for node in body.graph.trunk() if node >= end]))
    if unit.residual:
        with suppress(UnsupportedModel):
            nodes = [*block_call(body, unit).outputs.values(), *nodes]
    for node in nodes:
        found = _port_along(body, node)
        if found is not None and found.view is not None and found.view.shape == unit.map_shape:
            return found
    raise _no_place(body, unit, "leaves")


def _port_along(body: Dissection, node: int) -> Port | None:
    """The port of a tensor, or of what it is merely reshaped into before anybody works on it."""
    while True:
        for side in ("input", "output"):
            found = port_at(body, node, sides=(side,))
            if found is not None and found.view is not None:
                return found
        readers = body.graph.users[node]
        if len(readers) != 1 or body.graph[readers[0]].name not in REARRANGE:
            return None
        node = readers[0]


def _no_place(body: Dissection, unit: Unit, verb: str) -> UnsupportedModel:
    shared = why_shared(body, unit)
    if shared is not None:
        return UnsupportedModel(shared)
    return UnsupportedModel(
        f"no module takes or gives the map that {verb} '{unit.name}' ({unit.kind}); "
        "give that step of the model an nn.Module (nn.Identity will do)"
    )
