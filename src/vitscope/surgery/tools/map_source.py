"""How large the map is that tokens come from, in a pass over images of any size.

36 tokens are a 6x6 map or a 4x9 one, and four windows in a batch are one image's or two images': the tokens do not
tell. The map (N, C, H, W) or (N, H, W, C) that they were made of does, so a graft that needs to know has the last such
map before it noted in every pass. Where no module takes or gives one, the image is noted. A block that is called by
itself takes its tokens for those of the last image, or, before the first one, of a map of the shape it was made for.

The ports at which a map enters a block and leaves it, where a step from map to map can be put.
"""

import inspect
import math
from contextlib import suppress
from dataclasses import dataclass

from torch import Tensor, nn

from vitscope.anatomy import Dissection, Unit
from vitscope.anatomy.structure.neighbourhood import Grid
from vitscope.anatomy.taps.map_view import MapView, map_view
from vitscope.anatomy.taps.ports import Port, block_call, port_at, why_shared
from vitscope.anatomy.watch.operations import REARRANGE
from vitscope.core.errors import UnsupportedModel, VitscopeError
from vitscope.surgery.tools.graft import Slot, graft, graft_at


class SeenMap:
    """A map as it came last; no grid before it came at all."""

    images: int = 0
    grid: Grid | None = None


class MapNote(nn.Module):
    """Notes the size of a map on its way."""

    def __init__(self, axes: tuple[int, int]) -> None:
        super().__init__()
        self.axes, self.seen = axes, SeenMap()

    def forward(self, x: Tensor) -> Tensor:
        """The same map, of which the number of images and the grid are noted."""
        rows, columns = self.axes
        self.seen.images, self.seen.grid = x.shape[0], (x.shape[rows], x.shape[columns])
        return x


@dataclass(frozen=True)
class MapSource:
    """The map that tokens come from."""

    made_for: Grid  # in the pass that was watched
    seen: SeenMap

    def grids(self, made: Grid) -> list[Grid]:
        """What grids can come of the map as it came last, of which a `made` one came in the pass that was watched."""
        if self.seen.grid is None:
            return []
        sides = [now * own for now, own in zip(self.seen.grid, made, strict=True)]
        tall, wide = (
            dict.fromkeys((side // then, -(-side // then)))
            for side, then in zip(sides, self.made_for, strict=True)
        )
        return [(rows, columns) for rows in tall for columns in wide]

    def grid_of(self, points: int, made: Grid) -> Grid | None:
        """The grid that so many points are, which were a `made` one in the pass that was watched."""
        fitting = [grid for grid in self.grids(made) if grid[0] * grid[1] == points]
        if fitting:
            return fitting[0] if len(fitting) == 1 else None
        return same_shape(points, made)


def grid_of(points: int, made: Grid, source: MapSource | None) -> Grid | None:
    """The grid that so many points are: that of the map they come from, else one of the shape of `made`."""
    return same_shape(points, made) if source is None else source.grid_of(points, made)


def same_shape(points: int, made: Grid) -> Grid | None:
    """The grid of so many points that is as wide for its height as another one."""
    height, width = made
    if points < 1:
        return None
    factor = math.isqrt(points * height * width) / (height * width)
    found = round(height * factor), round(width * factor)
    return found if found[0] * found[1] == points and found[0] * width == found[1] * height else None


@dataclass(frozen=True)
class Windows:
    """The windows of an image that share the batch axis, in a pass over images of any size.

    All but the source was so in the pass that was watched.
    """

    made: int
    elements: int  # of the map in one image's part of the tensor
    others: int  # elements that are not of the map: prefix tokens
    grid: Grid
    source: MapSource

    def count(self, x: Tensor, axis: int) -> int:
        """How many windows each image has, of those along this axis of `x`."""
        seen, rows = self.source.seen, x.shape[axis]
        if seen.grid is None:
            return self.made
        if rows % seen.images == 0 and self._is_whole(x.numel() // seen.images):
            return rows // seen.images
        if seen.grid == self.source.made_for:
            return self.made
        # not windows of the images that came last: the module is called by itself, or again for its gradients
        others = rows % seen.images != 0 and rows % self.made == 0
        if others and self._is_whole(x.numel() * self.made // rows, anyway=True):
            return self.made
        made, now = ("x".join(map(str, grid)) for grid in (self.source.made_for, seen.grid))
        raise VitscopeError(
            f"a graft was put in for the tokens of a {made} map, and those of a {now} map cannot be told from padding; "
            "operate on a fresh model with --img-size as these images have it (in Python example=)"
        )

    def _is_whole(self, elements: int, anyway: bool = False) -> bool:
        """Whether so many elements are those of one image, of the size that came last, or `anyway` of that watched."""
        grids = [*self.source.grids(self.grid), *([self.grid] if anyway else [])]
        own = math.prod(self.grid)
        return any((elements - self.others) * own == self.elements * math.prod(grid) for grid in grids)


class MapNotes:
    """The maps that an operation's grafts want noted: planned first, then grafted."""

    def __init__(self, body: Dissection) -> None:
        self._body = body
        self._planned: dict[int, tuple[Port | None, MapNote]] = {}  # by node

    def before(self, node: int) -> MapSource:
        """The source of a tensor of the watched pass: the last map that it was made of and that a module hands on."""
        graph = self._body.graph
        handed = {n for call in graph.calls for n in (*call.inputs.values(), *call.outputs.values())}
        # of what everything passes through: a window inside a branch can look like a map of its own
        before = [n for n in handed.intersection(graph.trunk()) if graph.descends(node, n)]
        for n in sorted(before, reverse=True):
            view = self._map(n)
            if view is None:
                continue
            note = self._noted(n)
            if note is None and (port := port_at(self._body, n)) is not None:
                _, note = self._planned.setdefault(n, (port, MapNote(_sides(view))))
            if note is not None:
                return MapSource(view.shape[1:], note.seen)
        image = graph[graph.input].shape
        _, note = self._planned.setdefault(graph.input, (None, MapNote((2, 3))))
        return MapSource((image[2], image[3]), note.seen)

    def windows(self, node: int, parts: int) -> Windows | None:
        """How to tell the windows in a tensor of the watched pass, which had so many; None where there can be none.

        Attention in one window over the whole map may be in several on a larger one.
        """
        layout, graph = self._body.layouts[node], self._body.graph
        if layout is None or (parts == 1 and not self._is_in_msa(node)):
            return None
        elements = math.prod(graph[node].shape) // graph.batch
        others = int((layout.positions < 0).sum()) // graph.batch
        return Windows(parts, elements - others, others, layout.grid, self.before(node))

    def _is_in_msa(self, node: int) -> bool:
        additions = [self._body.segment(unit).addition for unit in self._body.parts.of_kind("msa")]
        return any(node in addition.region for addition in additions if addition is not None)

    def graft(self, model: nn.Module) -> list[str]:
        """Put in what notes the maps; returns the paths."""
        return [
            graft(model, "", note, "map_note", "input", self._image_slots())
            if port is None
            else graft_at(model, port, note, "map_note")
            for port, note in self._planned.values()
        ]

    def _map(self, node: int) -> MapView | None:
        """The view of a tensor that is a map as it stands; None if it is none."""
        if len(self._body.graph[node].shape) != 4 or not self._body.graph[node].dynamic:
            return None
        view = map_view(self._body.layouts[node], self._body.graph.batch)
        return view if view is not None and view.is_map(4) else None

    def _noted(self, node: int) -> MapNote | None:
        """What an earlier operation put there, or this one plans to."""
        if node in self._planned:
            return self._planned[node][1]
        paths = [call.path for call in self._body.graph.calls if node in call.outputs.values()]
        modules = [self._body.model.get_submodule(path) for path in paths]
        return next((module for module in modules if isinstance(module, MapNote)), None)

    def _image_slots(self) -> tuple[Slot, ...]:
        """Where the model is given the image, by position or by name."""
        whole = next(call for call in self._body.graph.calls if call.path == "")
        slot = next(slot for slot, node in whole.inputs.items() if node == self._body.graph.input)
        names = list(inspect.signature(self._body.model.forward).parameters)
        if isinstance(slot, int):
            return (slot, *names[slot : slot + 1])
        return (slot, *((names.index(slot),) if slot in names else ()))


def _sides(view: MapView) -> tuple[int, int]:
    rows, columns = (axis for axis in (1, 2, 3) if axis != view.channel_axis)
    return rows, columns


def map_entering(body: Dissection, unit: Unit) -> Port:
    """The stream as the unit's block takes it, before a norm that shortcut and branch may share."""
    segment = body.segment(unit)
    nodes = [segment.start]
    # an activation that the model calls as a function may stand between the sum and the module that takes it
    own = [call for call in body.graph.calls if call.path == unit.module]
    nodes += [
        node for call in own for node in call.inputs.values() if body.graph.descends(node, segment.start)
    ]
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
