"""Positions of a tensor's elements on the image grid, and what happens to them when points are joined or left out."""

from dataclasses import dataclass

import torch
from torch import Tensor

NOWHERE = -1


@dataclass(frozen=True)
class Layout:
    """Positions of a tensor's elements: image * H * W + y * W + x, or NOWHERE."""

    positions: Tensor  # int32, same shape as the tensor; constant along the channel axis
    grid: tuple[int, int]


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
    """Positions joined along the last axis (a patch becomes a token): the coarser grid of their first
    corners."""
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
    joined = (image * rows + y) * columns + x
    if (
        rows * columns == 1
        or int(torch.bincount(joined.flatten().long()).count_nonzero()) != images * rows * columns
    ):
        return None
    return Layout(joined.to(torch.int32), (rows, columns))


def compacted(layout: Layout, images: int) -> Layout:
    """Where every second row and column was picked (or any other regular choice), the grid of what is
    left."""
    height, width = layout.grid
    positions = thinned(layout.positions)  # a channel is like the next, and there may be thousands
    somewhere = positions >= 0
    present = torch.bincount(positions[somewhere].long(), minlength=1) > 0
    count = int(present.sum())
    if count in (0, images * height * width):
        return layout
    points = present.nonzero().flatten() % (height * width)
    rows_of, rows = _ranks(points // width, height)
    columns_of, columns = _ranks(points % width, width)
    if count != images * rows * columns or (rows * columns == 1 and height * width > 4):
        return layout
    table = torch.full((len(present),), NOWHERE, dtype=torch.int32)
    image = present.nonzero().flatten() // (height * width)
    table[present] = ((image * rows + rows_of) * columns + columns_of).to(torch.int32)
    moved = torch.where(somewhere, table[positions.clamp(min=0).long()], NOWHERE)
    return Layout(moved.expand(layout.positions.shape), (rows, columns))


def _ranks(values: Tensor, limit: int) -> tuple[Tensor, int]:
    """Each value's rank among the distinct values, and how many those are."""
    present = torch.bincount(values.flatten().long(), minlength=limit) > 0
    return (present.cumsum(0) - 1)[values.long()], int(present.sum())
