"""Make global attention local: every point of the map sees the k x k points around it.

    softmax_j(q_i · k_j / √d)    over the neighbours j of i and the prefix tokens, no longer over all tokens

No weight changes. Prefix tokens (class token, registers) keep their global reach: they see everybody and are seen by
everybody. `vitscope.models.zoo.local_attention` says what a kernel sees and how it is computed, and
`vitscope.surgery.tools.local_reach` how that gets into a module.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vitscope.anatomy import Dissection, Unit, dissect
from vitscope.anatomy.structure.neighbourhood import Grid
from vitscope.anatomy.structure.unit import AttentionSite
from vitscope.anatomy.taps.ports import why_shared
from vitscope.anatomy.watch.example import example_shapes
from vitscope.anatomy.watch.one_forward import Site
from vitscope.anatomy.watch.operations import KEEP_ZERO
from vitscope.anatomy.watch.places import Layout, constant_along
from vitscope.core.arguments import Side
from vitscope.surgery.tools.choose import HALVES, choose_units
from vitscope.surgery.tools.graft import graft
from vitscope.surgery.tools.local_reach import FusedReach, LocalReach, SoftmaxReach
from vitscope.surgery.tools.map_source import MapNotes
from vitscope.surgery.tools.record import CannotOperate, Done, operation
from vitscope.surgery.tools.vocabulary import Example, Layers


@dataclass(frozen=True)
class _Place:
    path: str
    reach: LocalReach


@operation
def localize(model: nn.Module, kernel: Side = 5, layers: Layers = "all", *, example: Example = None) -> Done:
    """Make the global attention of a model local.

    Args:
        model: Is changed in place.
        kernel: Side of the neighbourhood. Along a side of the map that is no longer every point sees all of it (of
            3 x 5 tokens a kernel of 3 sees all rows); a map with no longer side stays what it is.
        layers: "all", "upper" (the later half), "lower", or a list of unit names, patterns and positions.
        example: As for `vs.anatomy`.
    """
    body = dissect(model, example)
    by_name = not isinstance(layers, str) or layers not in HALVES
    asked = choose_units(body.parts, ("msa",), layers if by_name else "all")
    reasons = {unit.name: why for unit in asked if (why := _not_global(unit, kernel)) is not None}
    if reasons and by_name and len(reasons) < len(asked):
        name, why = next(iter(reasons.items()))
        raise CannotOperate(f"unit '{name}' {why}; choose layers without it")
    units = choose_units(body.parts, ("msa",), layers, lambda unit: unit.name not in reasons)
    units = tuple(unit for unit in units if unit.name not in reasons)
    notes = MapNotes(body)
    places = [place for unit in units for place in _plan(body, unit, kernel, notes)]
    grafts = [graft(model, place.path, place.reach, "localize", "around") for place in places]
    grafts += notes.graft(model)
    names = [unit.name for unit in units]
    options: dict[str, Any] = {"kernel": kernel, "layers": names}
    if example is not None:
        options["example"] = example_shapes(model, example)
    why = "; ".join(dict.fromkeys(f"'{name}' {why}" for name, why in list(reasons.items())[:2]))
    return Done(options, names, grafts, why_none=why or f"there is no MSA unit in layers={layers!r}")


def _not_global(unit: Unit, kernel: int) -> str | None:
    """Why a unit's attention needs not, or cannot, be made local."""
    attention = unit.attention
    if attention is None or unit.map_shape is None:
        return "has attention that could not be followed on the map"
    if attention.pattern != "global":
        return f"has {attention.pattern} attention, which does not see the whole map point by point"
    if kernel >= max(unit.map_shape[1:]):
        return f"has a {unit.map_shape[1]}x{unit.map_shape[2]} map, all of which a kernel of {kernel} sees"
    return None


def _plan(body: Dissection, unit: Unit, kernel: int, notes: MapNotes) -> list[_Place]:
    assert unit.attention is not None
    return [_place(body, unit, site, kernel, notes) for site in unit.attention.sites]


def _place(body: Dissection, unit: Unit, site: AttentionSite, kernel: int, notes: MapNotes) -> _Place:
    met = site.product if site.fused else site.softmax
    if met is None:
        raise CannotOperate(f"the attention of unit '{unit.name}' has no softmax that could be restricted")
    if sum(call.path == met.path for call in body.graph.calls) > 1:
        many = f"unit '{unit.name}' computes its attention in '{met.path}', which is called more than once in a pass"
        instead = f"{many}; give each attention a module of its own"
        raise CannotOperate(f"{why_shared(body, unit) or instead}, or choose other layers")
    grid, prefix = _tokens(body, unit, site)
    if not site.fused:
        _check_softmax_is_all(body, unit, site)
    source = notes.before(_node(body, site.product))
    reach = (FusedReach if site.fused else SoftmaxReach)(met.occurrence, grid, kernel, prefix, source)
    return _Place(met.path, reach)


def _node(body: Dissection, site: Site) -> int:
    return next(node.index for node in body.graph.nodes if node.site == site and node.dynamic)


def _tokens(body: Dissection, unit: Unit, site: AttentionSite) -> tuple[Grid, int]:
    """Grid and number of prefix tokens of the queries, which the keys must share."""
    product = body.graph[_node(body, site.product)]
    values = product.inputs[2] if site.fused else product.inputs[1 - site.weights_operand]
    orders = [_order(body.layouts[node]) for node in (product.index, values)]
    if orders[0] is None or orders[0] != orders[1]:
        raise CannotOperate(
            f"the tokens of unit '{unit.name}' do not come as prefix tokens followed by the map's points row by row; "
            "choose other layers"
        )
    return orders[0]


def _order(layout: Layout | None) -> tuple[Grid, int] | None:
    """Grid and prefix of tokens that come in raster order; None if they come otherwise."""
    if layout is None:
        return None
    positions = layout.positions
    for axis in reversed(range(positions.dim())):
        if constant_along(positions, axis):
            positions = positions.select(axis, 0)
    if positions.dim() == 0:
        return None
    first = positions.reshape(-1, positions.shape[-1])[0]
    points = layout.grid[0] * layout.grid[1]
    prefix = len(first) - points
    wanted = torch.cat([torch.full((max(prefix, 0),), -1), torch.arange(points)])
    return (layout.grid, prefix) if prefix >= 0 and torch.equal(first.long(), wanted) else None


def _check_softmax_is_all(body: Dissection, unit: Unit, site: AttentionSite) -> None:
    """Between softmax and product zero must stay zero: no mixing of heads, nothing added."""
    assert site.softmax is not None
    graph = body.graph
    softmax = _node(body, site.softmax)
    node = graph[_node(body, site.product)].inputs[site.weights_operand]
    while node != softmax:
        sources = [i for i in graph[node].inputs if i == softmax or graph.descends(i, softmax)]
        if graph[node].name not in KEEP_ZERO or len(sources) != 1:
            raise CannotOperate(
                f"unit '{unit.name}' does more to its attention after the softmax ({graph[node].name}), which would "
                "reach beyond the kernel again; choose other layers"
            )
        node = sources[0]
