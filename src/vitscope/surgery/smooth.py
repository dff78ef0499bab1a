"""Spatial smoothing: a feature map is made probability-like, then every point is averaged with its neighbours.

    Smooth(x) = Blur(Prob(x))

    Prob    tanh_relu  relu(t * tanh(x / t))      t the temperature
            tanh       t * tanh(x / t)
            relu       min(max(x, 0), t)          ReLU6 if t = 6
            none       x
    Blur    y[i, j] = (p[i, j] + p[i, j+1] + p[i+1, j] + p[i+1, j+1]) / 4

The map keeps its size: beyond the last row and column they are repeated, so that a constant map stays constant.
The published layer surrounds the map with zeros instead, and leaves one row and one column more (`grow`).
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitscope.anatomy import Dissection, Unit, dissect
from vitscope.anatomy.structure.neighbourhood import Grid
from vitscope.anatomy.taps.map_view import MapView
from vitscope.anatomy.taps.ports import Port
from vitscope.anatomy.taps.preserve import preserved
from vitscope.anatomy.watch.example import example_batch
from vitscope.core.arguments import Positive
from vitscope.core.errors import VitscopeError
from vitscope.surgery.tools.choose import Example
from vitscope.surgery.tools.graft import graft_at
from vitscope.surgery.tools.image_tokens import ImageTokens, head_reads
from vitscope.surgery.tools.map_source import (
    MapNotes,
    MapSource,
    Windows,
    grid_of,
    map_entering,
    map_leaving,
)
from vitscope.surgery.tools.record import CannotOperate, Done, operation

Prob = Literal["tanh_relu", "tanh", "relu", "none"]
PROBS: tuple[Prob, ...] = ("tanh_relu", "tanh", "relu", "none")


def probable(x: Tensor, prob: Prob, temperature: float) -> Tensor:
    """A real-valued map as a bounded, probability-like one."""
    if prob == "none":
        return x
    if prob == "relu":
        return x.clamp(0, temperature)
    bounded = temperature * torch.tanh(x / temperature)
    return bounded.relu() if prob == "tanh_relu" else bounded


def blur(x: Tensor, grow: bool = False) -> Tensor:
    """2x2 box blur of a (N, C, H, W) map: H x W again, or with `grow` H+1 x W+1 as published."""
    if grow:
        return F.avg_pool2d(x, 2, stride=1, padding=1)
    # quicker than padding and pooling, and at no point a map of another size, which anatomy would call subsampling
    x = torch.lerp(x, torch.cat((x[..., 1:], x[..., -1:]), -1), 0.5)
    return torch.lerp(x, torch.cat((x[..., 1:, :], x[..., -1:, :]), -2), 0.5)


class SpatialSmoothing(nn.Module):
    """Prob and Blur on the map in a tensor of any layout; prefix tokens pass unchanged.

    `view` is where the map is in it; where it is none itself, `source` is the map that its tokens come from (None: they
    are always of its shape), and `windows` tells how many an image has.
    """

    order: Tensor | None  # where the grid points stand among an image's tokens; None: they are all there is

    def __init__(
        self,
        prob: Prob,
        temperature: float,
        grow: bool,
        dimensions: int,
        view: MapView,
        source: MapSource | None = None,
        windows: Windows | None = None,
    ) -> None:
        super().__init__()
        self.prob, self.temperature, self.grow = prob, temperature, grow
        axes = (view.channel_axis, view.batch_axis, view.parts_per_image)
        self.layout = ImageTokens(dimensions, *axes, windows)
        self.is_map = view.is_map(dimensions)
        self.grid, self.prefix, self.source = view.shape[1:], view.prefix_tokens, source
        self.first = _first_in_raster_order(view)
        self.register_buffer("order", view.order, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Smooth the map."""
        if self.is_map:
            feature_map = x.movedim(self.layout.channel_axis, 1)
            return self._smooth(feature_map).movedim(1, self.layout.channel_axis)
        tokens = self.layout.read(x)
        grid = self._grid(tokens.shape[1] - self.prefix)
        order = self.order if grid == self.grid else self._raster(grid, x.device)
        points = tokens if order is None else tokens[:, order]
        smoothed = self._smooth(points.mT.unflatten(2, grid)).flatten(2).mT
        if order is not None:
            smoothed = tokens.index_copy(1, order, smoothed)
        return self.layout.write(smoothed, x)

    def _grid(self, points: int) -> Grid:
        """The grid that so many points are."""
        found = grid_of(points, self.grid, self.source)
        if found is None or (found != self.grid and self.first is None):
            raise VitscopeError(
                f"smoothing was put in for a {self.grid[0]}x{self.grid[1]} map and is given {points} points of another "
                "one; operate on a fresh model with --img-size as these images have it (in Python example=)"
            )
        return found

    def _raster(self, grid: Grid, device: torch.device) -> Tensor | None:
        """Where the points of another grid stand, if those of this one come row by row."""
        assert self.first is not None
        return torch.arange(grid[0] * grid[1], device=device) + self.first if self.prefix else None

    def _smooth(self, x: Tensor) -> Tensor:
        return blur(probable(x, self.prob, self.temperature), self.grow)

    def extra_repr(self) -> str:
        """Prob, temperature, and whether the map grows."""
        return f"{self.prob}, temperature={self.temperature:g}" + (", grow" if self.grow else "")


@operation
def smooth(
    model: nn.Module,
    where: Literal["subsampling", "stage_ends"] = "subsampling",
    prob: Prob = "tanh_relu",
    temperature: Positive = 10.0,
    *,
    grow: bool = False,
    example: Example = None,
) -> Done:
    """Put spatial smoothing into a model.

    Args:
        model: Is changed in place; no weight is touched and none is added.
        where: Before every unit that subsamples (what the stem does inside itself is left alone), or at the
            end of every stage, the last one too.
        prob: tanh_relu as published, tanh, relu or none.
        temperature: Scale of Prob: values well below it pass nearly unchanged.
        grow: The published blur, one row and column larger; for models that take any map size.
        example: As for `vs.anatomy`.
    """
    body = dissect(model, example)
    places = _before_subsampling(body)
    why = "it never subsamples after its stem; where='stage_ends' smooths before its head"
    if where == "stage_ends":
        places = _stage_ends(body, places, example)
        why = "its head reads its class token alone: vs.surgery.pool_tokens(model) first"
    if grow:
        _refuse_tokens(places)
    notes = MapNotes(body)
    options: dict[str, Any] = {"prob": prob, "temperature": float(temperature), "grow": grow}
    steps = [_step(place, notes, **options) for place in places]
    grafts = [graft_at(model, at.port, step, "smoothing") for at, step in zip(places, steps, strict=True)]
    grafts += notes.graft(model)
    if grow and grafts:
        _check_it_still_runs(model, example)
    return Done({"where": where, **options}, [place.unit.name for place in places], grafts, why)


@dataclass(frozen=True)
class _Place:
    unit: Unit  # that reads the smoothed map, or at the end of the model that makes it
    port: Port

    @property
    def view(self) -> MapView:
        assert self.port.view is not None  # `map_entering` and `map_leaving` give no other ports
        return self.port.view


def _before_subsampling(body: Dissection) -> list[_Place]:
    units = [u for u in body.parts if u.downsamples and u.kind not in ("stem", "head")]
    return [_Place(unit, map_entering(body, unit)) for unit in units]


def _stage_ends(body: Dissection, subsampling: list[_Place], example: Any) -> list[_Place]:
    """What enters a subsampling is the end of a stage, unless nothing but the stem came before it."""
    stages = {u.stage for u in body.parts if u.kind not in ("stem", "subsample", "head")}
    places = [place for place in subsampling if place.unit.stage - 1 in stages]
    last = [u for u in body.parts.mapped if u.kind != "stem"]
    readout = head_reads(body, body.model, example)
    if last and (readout is None or readout.reads_patches):
        places.append(_Place(last[-1], map_leaving(body, last[-1])))
    return places


def _step(place: _Place, notes: MapNotes, **how: Any) -> SpatialSmoothing:
    """What smooths at a place; where the tensor there does not tell its size, it is noted."""
    view, dimensions, node = place.view, len(place.port.shape), place.port.node
    if view.is_map(dimensions):
        return SpatialSmoothing(**how, dimensions=dimensions, view=view)
    source, windows = notes.before(node), notes.windows(node, view.parts_per_image)
    return SpatialSmoothing(**how, dimensions=dimensions, view=view, source=source, windows=windows)


def _first_in_raster_order(view: MapView) -> int | None:
    """Where the first point stands among the tokens; None where the points do not follow it row by row."""
    if view.order is None:
        return 0
    first = int(view.order[0])
    return first if torch.equal(view.order, torch.arange(first, first + len(view.order))) else None


def _refuse_tokens(places: list[_Place]) -> None:
    for place in places:
        if not place.view.is_map(len(place.port.shape)):
            _, height, width = place.view.shape
            raise CannotOperate(
                f"the map at '{place.unit.name}' is a sequence of {height}x{width} tokens and cannot grow; "
                "leave grow=False"
            )


def _check_it_still_runs(model: nn.Module, example: Any) -> None:
    try:
        with preserved(model), torch.no_grad():
            model(example_batch(model, example))
    except Exception as error:
        raise CannotOperate(
            f"this {type(model).__name__} takes no larger map ({type(error).__name__}: {error}); leave grow=False"
        ) from error
