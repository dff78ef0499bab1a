"""How far apart the queries and keys of an attention are on the map, and which of them are on it at all.

A point (y, x) of a grid of H rows and W columns has the normalised coordinates ((y + 1/2) / H, (x + 1/2) / W), so
that a pooled key lies at the centre of what it pools. Tokens that are nowhere are prefix tokens (class,
distillation, register) where their number is that of the unit's prefix tokens, else padding.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from vitscope.anatomy import AttentionMap, Unit

Grid = tuple[int, int]
Points = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class Geometry:
    """What is known about the tokens of one attention; a weight is a share of one image's queries."""

    asking: Tensor  # (windows, queries): weight of each query; padding has none
    on_map: Tensor  # (windows, queries): the same among those on the map (of class attention: among all)
    rows: Tensor  # (windows, queries, keys): steps between query and key, in rows of the queries' grid
    columns: Tensor
    off_map: Tensor  # (windows, keys): 1 where the key is no point of the map
    own: Tensor  # (windows, queries, keys): 1 where the key holds the query's own point
    grid: Grid  # of the queries
    placed: bool  # whether any query is on the map

    @property
    def whole(self) -> bool:
        """Whether no query is padding."""
        return bool((self.asking > 0).all())


def every_point_asks(unit: Unit, seen: AttentionMap) -> AttentionMap:
    """The same attention; where one context serves all points of a window, with a row for each of these points."""
    if unit.attention is None or unit.attention.pattern != "context" or seen.places is None:
        return seen
    places = replace(seen.places, queries=seen.places.keys)
    keys = seen.weights.shape[-1]
    weights, probabilities, output = (
        tensor.expand(*tensor.shape[:-2], keys, -1)
        for tensor in (seen.weights, seen.probabilities, seen.output)
    )
    return replace(seen, weights=weights, probabilities=probabilities, output=output, places=places)


def geometry(unit: Unit, seen: AttentionMap) -> Geometry:
    """The geometry of one attention of a unit; equal ones are worked out once."""
    places = seen.places
    assert unit.attention is not None
    assert places is not None
    prefix = unit.prefix_tokens if bool((places.queries >= 0).any()) else None
    queries, keys = (tuple(map(tuple, points.tolist())) for points in (places.queries, places.keys))
    return _geometry(queries, places.query_grid, keys, places.key_grid, prefix)


@lru_cache(maxsize=16)
@torch.inference_mode(False)
def _geometry(
    query_points: Points, grid: Grid, key_points: Points, key_grid: Grid, prefix: int | None
) -> Geometry:
    """`prefix` is how many prefix tokens there are; None where all that is nowhere is one."""
    queries, keys = torch.tensor(query_points), torch.tensor(key_points)
    asks_on_map, key_on_map = queries >= 0, keys >= 0
    is_prefix = prefix is None or bool(((~asks_on_map).sum(1) == prefix).all())
    asking = torch.ones_like(queries, dtype=torch.bool) if is_prefix else asks_on_map
    placed = bool(asks_on_map.any())
    height, width = grid
    (qy, qx), (ky, kx) = _centres(queries, grid), _centres(keys, key_grid)
    both = (asks_on_map[:, :, None] & key_on_map[:, None, :]).float()
    rows = (qy[:, :, None] - ky[:, None, :]).abs() * height
    columns = (qx[:, :, None] - kx[:, None, :]).abs() * width
    ratio_y, ratio_x = max(1.0, height / key_grid[0]), max(1.0, width / key_grid[1])
    inside = (rows < ratio_y / 2 + 1e-4) & (columns < ratio_x / 2 + 1e-4)
    return Geometry(
        asking=_shares(asking),
        on_map=_shares(asks_on_map if placed else asking),
        rows=rows * both,
        columns=columns * both,
        off_map=(~key_on_map).float(),
        own=inside * both,
        grid=grid,
        placed=placed,
    )


def _centres(points: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    height, width = grid
    y, x = points.clamp(min=0) // width, points.clamp(min=0) % width
    return (y + 0.5) / height, (x + 0.5) / width


def _shares(chosen: Tensor) -> Tensor:
    return chosen.float() / chosen.sum().clamp(min=1)
