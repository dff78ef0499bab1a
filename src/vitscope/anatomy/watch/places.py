"""Positions of a tensor's elements on the image grid: what becomes of them when points are joined or left out, and
where the queries and keys of an attention lie, read off the positions of the tensors it multiplies."""

from dataclasses import dataclass

import torch
from torch import Tensor

NOWHERE = -1


@dataclass(frozen=True, eq=False)
class Places:
    """Points of an attention's queries and keys, window by window: y * W + x on their grid, or NOWHERE (-1).

    Prefix tokens and padding are nowhere. Pooled keys have a coarser grid than the queries.
    """

    queries: Tensor  # (windows, queries)
    query_grid: tuple[int, int]
    keys: Tensor  # (windows, keys)
    key_grid: tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """Positions of a tensor's elements: image * H * W + y * W + x, or NOWHERE."""

    positions: Tensor  # int32, same shape as the tensor; constant along the channel axis
    grid: tuple[int, int]

    @property
    def points(self) -> int:
        """How many points the grid has."""
        return self.grid[0] * self.grid[1]


def find_places(
    query: Layout | None, key: Layout | None, queries: int, keys: int, heads: int, images: int
) -> Places | None:
    """The places of one attention, or None where the positions of its tensors do not tell.

    Args:
        query: Layout of the tensor of queries, (..., queries, channels).
        key: Layout of the tensor of keys, (..., keys, channels) or (..., channels, keys).
        queries: Per window, like `keys`.
        keys: Per window.
        heads: How often in a row each window comes if heads share an axis with the images, else 1.
        images: In the pass that was watched.
    """
    if query is None or key is None:
        return None
    first, second = _by_window(query, queries, heads, images), _by_window(key, keys, heads, images)
    if first is None or second is None:
        return None
    windows = max(len(first), len(second))
    if min(len(first), len(second)) not in (1, windows):
        return None
    return Places(first.expand(windows, -1), query.grid, second.expand(windows, -1), key.grid)


def context_places(key: Layout | None, keys: int, images: int) -> Places | None:
    """The places of attention with one query per window that is no point of the map; `key` as for `find_places`."""
    points = _by_window(key, keys, 1, images) if key is not None else None
    if key is None or points is None:
        return None
    return Places(torch.full((len(points), 1), NOWHERE), key.grid, points, key.grid)


def _by_window(layout: Layout, tokens: int, heads: int, images: int) -> Tensor | None:
    """(windows, tokens): the points of the first image's tokens."""
    positions = layout.positions
    axes = [a for a in (positions.dim() - 2, positions.dim() - 1) if positions.shape[a] == tokens]
    if axes and not bool((positions >= 0).any()):
        return torch.full((1, tokens), NOWHERE)
    axes = [a for a in axes if tokens == 1 or not constant_along(positions, a)]
    if not axes:
        return None
    rows = positions.movedim(axes[0], -1)
    for axis in reversed(range(rows.dim() - 1)):
        if constant_along(rows, axis):
            rows = rows.select(axis, 0)
    rows = rows.reshape(-1, tokens).long()
    if heads > 1 and len(rows) % heads == 0:
        rows = rows[::heads]
    windows = len(rows) // images
    owner = torch.arange(images).repeat_interleave(windows)[:, None]
    if len(rows) % images or not bool(((rows // layout.points == owner) | (rows < 0)).all()):
        return None
    points = torch.where(rows >= 0, rows % layout.points, NOWHERE)
    same = points.view(images, windows, tokens) == points[:windows]
    return points[:windows] if bool(same.all()) else None


def image_layout(shape: tuple[int, ...]) -> Layout:
    """The layout of a (N, C, H, W) tensor."""
    images, _, height, width = shape
    positions = torch.arange(images * height * width, dtype=torch.int32).view(images, 1, height, width)
    return Layout(positions.expand(shape), (height, width))


def constant_along(positions: Tensor, axis: int) -> bool:
    """Whether positions do not change along an axis: it runs over channels, or heads."""
    size = positions.shape[axis]
    if size == 1 or positions.stride(axis) == 0:
        return True
    first = positions.select(axis, 0)
    # Rearrangements are regular: where the ends and some points between agree, the whole axis does.
    probes = sorted({1, size // 7, size // 5, size // 3, size // 2, size - 1} - {0})
    return all(torch.equal(first, positions.select(axis, i)) for i in probes)


def thinned(positions: Tensor) -> Tensor:
    """The positions with every axis along which they do not change cut to its first element."""
    for axis in range(positions.dim()):
        if positions.shape[axis] > 1 and constant_along(positions, axis):
            positions = positions.narrow(axis, 0, 1)
    return positions


def joined(positions: Tensor, grid: tuple[int, int], images: int) -> Layout | None:
    """Positions joined along the last axis (a patch becomes a token): the coarser grid of their first corners."""
    height, width = grid
    somewhere = positions >= 0
    if not bool(somewhere.any(-1).all()):
        return None
    area = height * width
    image = torch.where(somewhere, positions // area, images).amin(-1)
    y = torch.where(somewhere, positions % area // width, height).amin(-1)
    x = torch.where(somewhere, positions % width, width).amin(-1)
    if not bool(((positions // area == image.unsqueeze(-1)) | ~somewhere).all()):
        return None  # joins different images
    y, rows = _ranks(y, height)
    x, columns = _ranks(x, width)
    coarse = (image * rows + y) * columns + x
    present = int(torch.bincount(coarse.flatten().long()).count_nonzero())
    if rows * columns == 1 or present != images * rows * columns:
        return None
    return Layout(coarse.to(torch.int32), (rows, columns))


def compacted(layout: Layout, images: int) -> Layout:
    """Where every second row and column was picked (or any other regular choice), the grid of what is left."""
    width, area = layout.grid[1], layout.points
    positions = thinned(layout.positions)  # a channel is like the next, and there may be thousands
    somewhere = positions >= 0
    present = torch.bincount(positions[somewhere].long(), minlength=1) > 0
    count = int(present.sum())
    if count in (0, images * area):
        return layout
    points = present.nonzero().flatten()
    rows_of, rows = _ranks(points % area // width, layout.grid[0])
    columns_of, columns = _ranks(points % width, width)
    if count != images * rows * columns or (rows * columns == 1 and area > 4):
        return layout
    table = torch.full((len(present),), NOWHERE, dtype=torch.int32)
    image = points // area
    table[present] = ((image * rows + rows_of) * columns + columns_of).to(torch.int32)
    moved = torch.where(somewhere, table[positions.clamp(min=0).long()], NOWHERE)
    return Layout(moved.expand(layout.positions.shape), (rows, columns))


def _ranks(values: Tensor, limit: int) -> tuple[Tensor, int]:
    """Each value's rank among the distinct values, and how many those are."""
    present = torch.bincount(values.flatten().long(), minlength=limit) > 0
    return (present.cumsum(0) - 1)[values.long()], int(present.sum())
