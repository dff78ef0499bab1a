"""Make global attention local: every point of the map sees the k x k points around it.

    softmax_j(q_i · k_j / √d)    over the neighbours j of i and the prefix tokens, no longer over all tokens

No weight changes. Prefix tokens (class token, registers) keep their global reach: they see everybody and are seen by
everybody. `vitscope.models.zoo.local_attention` says what a kernel sees and how it is computed. The step is put around
the module that computes the attention, which is not touched.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitscope.anatomy import Dissection, Unit, dissect
from vitscope.anatomy.structure.neighbourhood import Grid, neighbourhood
from vitscope.anatomy.structure.unit import AttentionSite
from vitscope.anatomy.taps.ports import KEEP_ZERO, why_shared
from vitscope.anatomy.watch.one_forward import OperationMode, Site
from vitscope.anatomy.watch.places import Layout, constant_along
from vitscope.core.arguments import Side
from vitscope.core.errors import VitscopeError
from vitscope.models.zoo.local_attention import LocalAttention, hiding
from vitscope.surgery.tools.choose import Example, Layers, asked_units, by_name, choose_units
from vitscope.surgery.tools.graft import graft
from vitscope.surgery.tools.map_source import MapNotes, MapSource, grid_of
from vitscope.surgery.tools.record import CannotOperate, Done, operation

FUSED = (F.scaled_dot_product_attention,)
SOFTMAX = (torch.softmax, Tensor.softmax, F.softmax)


class LocalReach(nn.Module):
    """Runs a module with one of its attentions made local, that of so many `prefix` tokens and the points of a `grid`.

    While the module runs, the `occurrence`-th call of the fused attention, or of a softmax, is met and given local
    reach; everything else in it is its own. Points that come from no `source` are always of the grid's shape.
    """

    functions: tuple[Any, ...]

    def __init__(
        self, occurrence: int, grid: Grid, kernel: int, prefix: int, source: MapSource | None = None
    ) -> None:
        super().__init__()
        self.occurrence, self.grid, self.kernel = occurrence, grid, kernel
        self.prefix, self.source = prefix, source

    def forward(self, run: Any, *args: Any, **kwargs: Any) -> Any:
        """Call `run` with these arguments."""
        with _Meet(self):
            return run(*args, **kwargs)

    def attend(self, function: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Called in place of the attention."""
        raise NotImplementedError

    def grid_of(self, tokens: int) -> Grid:
        """The grid that so many tokens are: that of the map they come from, or one of the shape it was made for."""
        points = tokens - self.prefix
        found = grid_of(points, self.grid, self.source)
        if found is None:
            height, width = self.grid
            raise VitscopeError(
                f"{tokens} tokens are not {self.prefix} and a grid of the shape {height}x{width}; give images of "
                "the shape the model was localized for, or localize it for another: localize(model, example=...)"
            )
        return found

    def extra_repr(self) -> str:
        """Settings."""
        return f"grid={self.grid}, kernel={self.kernel}, prefix={self.prefix}"


class FusedReach(LocalReach):
    """`LocalReach` for attention that one fused function computes."""

    functions = FUSED

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.attention = LocalAttention(self.grid, self.kernel, self.prefix)

    def attend(self, function: Any, query: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Local attention."""
        grid, attention = self.grid_of(query.shape[-2]), self.attention
        if grid != self.grid:
            attention = LocalAttention(grid, self.kernel, self.prefix).to(query.device)
        found: Tensor = attention(query, *args, **kwargs)
        return found


class SoftmaxReach(LocalReach):
    """For a softmax over scores (..., queries, keys), or (..., keys, queries) if it runs over the last axis but one."""

    functions = SOFTMAX
    bias: Tensor

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.register_buffer("bias", self._hidden(self.grid), persistent=False)

    def attend(self, function: Any, scores: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Softmax of the scores, those of what is not seen lowered to -inf."""
        grid, bias = self.grid_of(scores.shape[-1]), self.bias
        if grid != self.grid:
            bias = self._hidden(grid).to(scores.device)
        axis = args[0] if args else kwargs["dim"]
        bias = bias if axis in (-1, scores.dim() - 1) else bias.T
        found: Tensor = function(scores + bias.to(scores.dtype), *args, **kwargs)
        return found

    def _hidden(self, grid: Grid) -> Tensor:
        return hiding(neighbourhood(grid, (self.kernel, self.kernel), self.prefix))


class _Meet(OperationMode):
    """Hands one operation of a running module over to a `LocalReach`."""

    def __init__(self, reach: LocalReach) -> None:
        super().__init__()
        self.reach, self.met = reach, 0

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Called in place of every torch operation."""
        if func not in self.reach.functions:
            return func(*args, **kwargs)
        self.met += 1
        if self.met - 1 != self.reach.occurrence:
            return func(*args, **kwargs)
        return self.reach.attend(func, *args, **kwargs)


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
    asked = asked_units(body.parts, ("msa",), layers)
    reasons = {unit.name: why for unit in asked if (why := _not_global(unit, kernel)) is not None}
    if reasons and by_name(layers) and len(reasons) < len(asked):
        name, why = next(iter(reasons.items()))
        raise CannotOperate(f"unit '{name}' {why}; choose layers without it")
    units = choose_units(body.parts, ("msa",), layers, lambda unit: unit.name not in reasons)
    units = tuple(unit for unit in units if unit.name not in reasons)
    notes = MapNotes(body)
    places = [
        _place(body, unit, site, kernel, notes)
        for unit in units
        if unit.attention is not None
        for site in unit.attention.sites
    ]
    grafts = [graft(model, path, reach, "localize", "around") for path, reach in places]
    grafts += notes.graft(model)
    names = [unit.name for unit in units]
    why = "; ".join(dict.fromkeys(f"'{name}' {why}" for name, why in list(reasons.items())[:2]))
    options = {"kernel": kernel, "layers": names}
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


def _place(
    body: Dissection, unit: Unit, site: AttentionSite, kernel: int, notes: MapNotes
) -> tuple[str, LocalReach]:
    """The path of the module that computes an attention, and what goes around it."""
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
    return met.path, reach


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
