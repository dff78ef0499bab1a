"""How large the map is that tokens come from, in a pass over images of any size.

36 tokens are a 6x6 map or a 4x9 one, and four windows in a batch are one image's or two images': the tokens do not
tell. The map (N, C, H, W) or (N, H, W, C) that they were made of does, so a graft that needs to know has the last such
map before it noted in every pass. Where no module takes or gives one, the image is noted. A block that is called by
itself takes its tokens for those of the last image, or, before the first one, of a map of the shape it was made for.
"""

import inspect
import math
from dataclasses import dataclass

from torch import Tensor, nn

from vitscope.anatomy import Dissection
from vitscope.anatomy.mapview import MapView, map_view
from vitscope.anatomy.neighbourhood import Grid
from vitscope.anatomy.ports import Port, port_at
from vitscope.errors import VitscopeError
from vitscope.surgery.graft import Slot, graft, graft_at


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
        """The same map."""
        rows, columns = self.axes
        self.seen.images, self.seen.grid = x.shape[0], (x.shape[rows], x.shape[columns])
        return x


@dataclass(frozen=True)
class MapSource:
    """The map that tokens come from."""

    made_for: Grid  # in the pass that was watched
    seen: SeenMap

    def grid_of(self, points: int, made: Grid) -> Grid | None:
        """The grid that so many points are, which were a `made` one in the pass that was watched."""
        if self.seen.grid is not None:
            sides = [now * own for now, own in zip(self.seen.grid, made, strict=True)]
            tall, wide = (
                dict.fromkeys((side // then, -(-side // then)))
                for side, then in zip(sides, self.made_for, strict=True)
            )
            fitting = [(rows, columns) for rows in tall for columns in wide if rows * columns == points]
            if fitting:
                return fitting[0] if len(fitting) == 1 else None
        return same_shape(points, made)

    def windows_of(self, x: Tensor, axis: int, made: int, elements: int) -> int | None:
        """How many windows of an image share an axis of `x`, of which there were `made`, with so many elements per
        image; None where that cannot be told, because windows are padded for one."""
        if self.seen.grid is None or not self.seen.images:
            return made
        images, area = self.seen.images, math.prod(self.seen.grid)
        whole = x.shape[axis] % images == 0
        if whole and x.numel() // images * math.prod(self.made_for) == elements * area:
            return x.shape[axis] // images
        return made if self.seen.grid == self.made_for else None


def same_shape(points: int, made: Grid) -> Grid | None:
    """The grid of so many points that is as wide for its height as another one."""
    height, width = made
    factor = math.isqrt(points * height * width) / (height * width) if points > 0 else 0.0
    found = round(height * factor), round(width * factor)
    return found if found[0] * found[1] == points and found[0] * width == found[1] * height else None


@dataclass(frozen=True)
class Windows:
    """The windows of an image that share the batch axis, in a pass over images of any size."""

    made: int
    elements: int  # of an image's tensor, both in the pass that was watched
    source: MapSource

    def count(self, x: Tensor, axis: int) -> int:
        """How many there are."""
        found = self.source.windows_of(x, axis, self.made, self.elements)
        if found is None:
            seen, wanted = (_by(grid) for grid in (self.source.seen.grid, self.source.made_for))
            raise VitscopeError(
                f"a graft was put in for the windows of a {wanted} map, and those of a {seen} map are not to be told "
                "apart; operate on a fresh model with example= the shape of these images"
            )
        return found


class MapNotes:
    """The maps that an operation's grafts want noted: planned first, then grafted."""

    def __init__(self, body: Dissection) -> None:
        self._body = body
        self._planned: dict[int, tuple[Port | None, MapNote]] = {}  # by node

    def before(self, node: int) -> MapSource:
        """The source of a tensor of the watched pass: the last map that it was made of and that a module hands on."""
        graph = self._body.graph
        handed = {n for call in graph.calls for n in (*call.inputs.values(), *call.outputs.values())}
        for n in sorted((n for n in handed if graph.descends(node, n)), reverse=True):
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
        """How to tell the windows in a tensor of the watched pass, which had so many; None where there are none."""
        if parts == 1:
            return None
        elements = math.prod(self._body.graph[node].shape) // self._body.graph.batch
        return Windows(parts, elements, self.before(node))

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


def _by(grid: Grid | None) -> str:
    return "x".join(map(str, grid or ()))
