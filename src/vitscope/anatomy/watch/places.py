"""Where the queries and keys of an attention lie on the map, read off the positions of the tensors it multiplies."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vitscope.anatomy.watch.positions import NOWHERE, Layout, constant_along


@dataclass(frozen=True, eq=False)
class Places:
    """Points of an attention's queries and keys, window by window: y * W + x on their grid, or NOWHERE (-1).

    Prefix tokens and padding are nowhere. Pooled keys have a coarser grid than the queries.
    """

    queries: Tensor  # (windows, queries)
    query_grid: tuple[int, int]
    keys: Tensor  # (windows, keys)
    key_grid: tuple[int, int]


def find_places(
    query: Layout | None, key: Layout | None, queries: int, keys: int, heads: int, images: int
) -> Places | None:
    """The places of one attention, or None where the positions of its tensors do not tell.

    Args:
        query: Layout of the tensor of queries, (..., queries, channels).
        key: Layout of the tensor of keys, (..., keys, channels) or (..., channels, keys).
        queries: Per window.
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
    if windows % len(first) or windows % len(second) or min(len(first), len(second)) not in (1, windows):
        return None
    return Places(first.expand(windows, -1), query.grid, second.expand(windows, -1), key.grid)


def context_places(key: Layout | None, keys: int, images: int) -> Places | None:
    """The places of attention with one query per window that is no point of the map; `key` as for `find_places`."""
    points = _by_window(key, keys, 1, images) if key is not None else None
    if key is None or points is None:
        return None
    nowhere = torch.full((len(points), 1), NOWHERE, dtype=torch.long)
    return Places(nowhere, key.grid, points, key.grid)


def _by_window(layout: Layout, tokens: int, heads: int, images: int) -> Tensor | None:
    """(windows, tokens): the points of the first image's tokens."""
    positions, area = layout.positions, layout.grid[0] * layout.grid[1]
    nowhere = not bool((positions >= 0).any())
    axes = [a for a in (positions.dim() - 2, positions.dim() - 1) if positions.shape[a] == tokens]
    if nowhere and axes:
        return torch.full((1, tokens), NOWHERE, dtype=torch.long)
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
    if len(rows) % images or not bool(((rows // area == owner) | (rows < 0)).all()):
        return None
    points = torch.where(rows >= 0, rows % area, NOWHERE)
    same = points.view(images, windows, tokens) == points[:windows]
    return points[:windows] if bool(same.all()) else None
