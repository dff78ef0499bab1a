"""Where a backbone's maps can be had: at the end of each of its stages, or at four depths of one without stages.

Anatomy finds the units whose stream a module hands on. What such a module gives is kept on its way, by a hook, while
the backbone runs as it always does: it is neither cut nor rewritten, so that all that holds of it alone holds in a
dense model, too. What it does after the last of these maps (a last norm, its classifier) is done for nothing, and the
weights that only serve that are frozen, since nothing could teach them.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from torch import Tensor, nn

from vitscope.anatomy import Dissection, Unit
from vitscope.anatomy.taps.map_view import MapView, map_view
from vitscope.anatomy.watch.graph import Slot
from vitscope.anatomy.watch.operations import REARRANGE
from vitscope.core.errors import UnsupportedModel, VitscopeError

DEPTHS = 4  # of a backbone that keeps one grid, as of the published UperNets on ViTs
_SAME = REARRANGE | {"contiguous"}


@dataclass(frozen=True)
class Level:
    """A map of the backbone that feeds the neck."""

    unit: str  # the unit whose stream it is
    module: str  # hands it on: the largest that does
    block: str  # holds the unit and hands it on: the smallest that does
    slot: Slot  # which of the module's outputs, if it gives several
    view: MapView
    first: int | None  # of the tokens that are the map, row by row; None: they come in another order
    image: tuple[int, int]  # size of the images for which it has that shape
    node: int  # of the pass in which it was found

    @property
    def channels(self) -> int:
        """Width of the map."""
        return self.view.shape[0]

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns, of images of the size that was watched."""
        return self.view.shape[1:]

    @property
    def stride(self) -> float:
        """Pixels of the image from one of its points to the next."""
        return math.sqrt(math.prod(self.image) / math.prod(self.grid))

    def read(self, output: Any, image: tuple[int, int]) -> Tensor:
        """(N, C, H, W), of what the module gave for images of this size; prefix tokens are left out."""
        stream: Tensor = output if isinstance(output, Tensor) else output[self.slot]
        if self.view.is_map(stream.dim()):
            return stream.movedim(self.view.channel_axis, 1)
        if self.first is None:
            if image != self.image:
                raise self._untold(image)
            return self.view.read(stream)
        tokens = stream.movedim(self.view.channel_axis, -1).movedim(self.view.batch_axis, 0).flatten(1, -2)
        rows, columns = self._grid_for(tokens.shape[1] - self.view.prefix_tokens, image)
        tokens = tokens[:, self.first : self.first + rows * columns]
        return tokens.transpose(1, 2).unflatten(2, (rows, columns))

    def _grid_for(self, points: int, image: tuple[int, int]) -> tuple[int, int]:
        """The grid that so many tokens are: the image's sides tell 4x9 from 6x6."""
        if image == self.image:
            return self.grid
        sides = [
            dict.fromkeys((now * side // then, -(-now * side // then)))
            for now, then, side in zip(image, self.image, self.grid, strict=True)
        ]
        fitting = [(rows, columns) for rows, columns in product(*sides) if rows * columns == points]
        if len(fitting) != 1:
            raise self._untold(image)
        return fitting[0]

    def _untold(self, image: tuple[int, int]) -> VitscopeError:
        return VitscopeError(
            f"the tokens of '{self.unit}' do not tell what map they are in images of {image[0]}x{image[1]} pixels, "
            f"other than the {self.image[0]}x{self.image[1]} it was built for; build it for them: img_size={image}"
        )


class Keeper:
    """A hook that keeps what a module gives, for whoever takes it."""

    def __init__(self) -> None:
        self.kept: Any = None

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        """Keep it; the module gives it as it would."""
        self.kept = output

    def take(self) -> Any:
        """What was kept, which is let go."""
        kept, self.kept = self.kept, None
        return kept


def find_levels(body: Dissection) -> list[Level]:
    """The maps that can feed a neck, from the finest to the coarsest, or from the first to the last of one size.

    Raises:
        UnsupportedModel: No module of the backbone hands its maps on.
    """
    levels = [level for unit in body.parts.mapped if (level := _level(body, unit)) is not None]
    if not levels:
        raise UnsupportedModel(
            f"no module of {body.parts.model_name} gives the map after one of its units, so that nothing can be put "
            "on it; give its blocks modules of their own"
        )
    stages: dict[tuple[int, ...], Level] = {}
    for level in levels:
        grid = level.grid
        finer = [other for other in stages if math.prod(other) < math.prod(grid)]
        if not finer:  # maps that grow again are a decoder's
            stages[grid] = level
    if len(stages) > 1:
        return list(stages.values())
    n = len(levels)
    return [levels[max((k + 1) * n // DEPTHS, 1) - 1] for k in range(DEPTHS)]


def is_plain(levels: Sequence[Level]) -> bool:
    """Whether all maps are of one size, as those of a ViT."""
    return len({level.grid for level in levels}) == 1


def used_parameters(body: Dissection, levels: Sequence[Level]) -> set[int]:
    """The ids of the parameters and buffers that the maps depend on."""
    mask = 0
    for level in levels:
        mask |= body.graph.ancestors[level.node]
    nodes = (node for node in body.graph.nodes if mask >> node.index & 1 and node.value is not None)
    return {id(node.value) for node in nodes}


def _level(body: Dissection, unit: Unit) -> Level | None:
    """The map after a unit of work, if a module that runs once in a pass hands it on."""
    if unit.kind in ("stem", "subsample"):
        return None
    counts = Counter(call.path for call in body.graph.calls)
    for node in _same_numbers(body, body.stream_after(unit)):
        calls = [c for c in body.graph.calls if node in c.outputs.values() and node in c and c.path]
        calls = [c for c in calls if counts[c.path] == 1]
        view = map_view(body.layouts[node], body.graph.batch)
        if calls and view is not None:
            call = min(
                calls, key=lambda c: c.path.count(".")
            )  # the largest: a stage rather than its last block
            image = body.parts.input_shape[1:]
            slot = next(slot for slot, given in call.outputs.items() if given == node)
            around = [c.path for c in calls if f"{unit.module}.".startswith(f"{c.path}.")]
            block = max(around, key=len, default=call.path)
            size = (image[0], image[1])
            return Level(unit.name, call.path, block, slot, view, _first(view), size, node)
    return None


def _first(view: MapView) -> int | None:
    """Where the map begins among the tokens, if it is row by row from there."""
    if view.parts_per_image != 1:
        return None
    if view.order is None:
        return 0
    return int(view.order[0]) if bool((view.order.diff() == 1).all()) else None


def _same_numbers(body: Dissection, node: int) -> Iterator[int]:
    """A tensor, and what holds the same numbers in another shape, as far as nothing else is made of it."""
    yield node
    shape = math.prod(body.graph[node].shape)
    while len(users := [i for i in body.graph.readers(node) if body.graph[i].name in _SAME]) == 1:
        node = users[0]
        if math.prod(body.graph[node].shape) != shape:
            return
        yield node
