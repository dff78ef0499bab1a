"""A grid cut into tiles, each with the margin that a kernel sees beyond it.

One axis at a time: points 0 ... n - 1 are cut into tiles of equal length, the last of which begins earlier, over the
one before, if they do not come out even. A tile's window is what its points see, moved inwards at the borders so that
all windows are equally long.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from vitscope.anatomy.structure.neighbourhood import neighbours


@dataclass(frozen=True)
class Cut:
    """The tiles of one axis."""

    size: int  # points of the axis
    kernel: int  # how many of them each sees
    tile: int  # points of a tile

    @property
    def count(self) -> int:
        """Number of tiles."""
        return -(-self.size // self.tile)

    @property
    def window(self) -> int:
        """Points that a tile sees."""
        return min(self.tile + min(self.kernel, self.size) - 1, self.size)

    @cached_property
    def tiles(self) -> tuple[int, ...]:
        """Where each tile begins."""
        return tuple(min(i * self.tile, self.size - self.tile) for i in range(self.count))

    @cached_property
    def windows(self) -> tuple[int, ...]:
        """Where each tile's window begins."""
        before, last = (self.kernel - 1) // 2, self.size - self.window
        return tuple(min(max(start - before, 0), last) for start in self.tiles)

    def seen(self) -> Tensor:
        """Which points of its window each point of a tile sees, (tiles, tile, window)."""
        seen = neighbours(self.size, self.kernel)
        pairs = zip(self.tiles, self.windows, strict=True)
        return torch.stack([seen[t : t + self.tile, w : w + self.window] for t, w in pairs])

    def join(self, tiles: Tensor, axis: int) -> Tensor:
        """The axis again, from its tiles one after the other; of points in two tiles the later tile's are left out."""
        twice = self.count * self.tile - self.size
        if not twice:
            return tiles
        first = (self.count - 1) * self.tile
        before, _, after = tiles.split([first, twice, self.tile - twice], axis)
        return torch.cat([before, after], axis)


def gather(
    tensor: Tensor,
    axis: int,
    starts: Sequence[int],
    length: int,
    stride: int = 1,
    before: Tensor | None = None,
) -> Tensor:
    """Stretches of one axis, one after the other, with `before` in front of each; a point is `stride` entries of it.

    It is cut once, at every border of a stretch, so that the backward pass puts it together once, whatever the overlap.
    """
    size = tensor.shape[axis] // stride
    if before is None and list(starts) == list(range(0, size, length)) and size % length == 0:
        return tensor
    borders = sorted({0, size, *starts, *(start + length for start in starts)})
    pieces = tensor.split([(end - begin) * stride for begin, end in pairwise(borders)], axis)
    taken: list[Tensor] = []
    for start in starts:
        if before is not None:
            taken.append(before)
        taken += [
            piece
            for begin, piece in zip(borders[:-1], pieces, strict=True)
            if start <= begin < start + length
        ]
    return torch.cat(taken, axis)
