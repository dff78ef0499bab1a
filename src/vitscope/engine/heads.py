"""What exams of attention share: which attention has a meaning on the map, where its tokens are, and sums over images.

A point (y, x) of a grid of H rows and W columns has the normalised coordinates ((y + 1/2) / H, (x + 1/2) / W), so
that a pooled key lies at the centre of what it pools. Tokens that are nowhere are prefix tokens (class,
distillation, register) where their number is that of the unit's prefix tokens, else padding.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from vitscope.anatomy import AttentionMap, Unit
from vitscope.anatomy.structure.neighbourhood import neighbourhood
from vitscope.core.statistics import mean_interval
from vitscope.engine.exam import Accumulator, Batch, Subject
from vitscope.engine.not_finite import overflown
from vitscope.results import UnitRow
from vitscope.results.table import ALL_HEADS

# quantities that are at most 1; all are at least 0
SHARES = ("prefix", "diagonal", "similarity", "gradient", "share")
Grid = tuple[int, int]
Points = tuple[tuple[int, ...], ...]


def attention_matrix(seen: AttentionMap) -> Tensor:
    """(N, heads, queries, keys), float32: the matrix that averages the values.

    That is what multiplies them, unless its rows are no averages (heads are mixed after the softmax): then it is
    the softmax.
    """
    weights = seen.weights
    if weights.data_ptr() == seen.probabilities.data_ptr():
        return weights.float()
    averages = bool((weights >= 0).all()) and bool(((weights.sum(-1) - 1).abs() < 1e-2).all())
    return (weights if averages else seen.probabilities).float()


def why_not(unit: Unit) -> str | None:
    """Why the attention of a unit has no meaning on the map; None if it has one."""
    if unit.attention is None:
        return "it does not attend"
    if unit.attention.pattern == "channel":
        return "it attends over channels, not over points"
    if any(site.places is None for site in unit.attention.sites):
        return "which points its queries and keys are cannot be told"
    return None


def visible_keys(unit: Unit) -> np.ndarray:
    """How many keys each query of `unit` can see; one number where all see as many.

    In local attention points at the map's edge see fewer, and prefix tokens see all.
    """
    assert unit.attention is not None
    places = [site.places for site in unit.attention.sites if site.places is not None]
    if unit.attention.pattern == "local" and unit.attention.window is not None:
        grid, tokens = places[0].query_grid, places[0].queries.shape[1]
        near = neighbourhood(grid, unit.attention.window, tokens - math.prod(grid))
        return near.sum(1).numpy()
    return np.array([max(one.keys.shape[1] for one in places)])


def _without_weights(subject: Subject) -> tuple[tuple[str, str], ...]:
    """Units that mix points, but form no attention that could be captured, and why they are left out."""
    attending = {unit.name for unit in subject.attending}
    return tuple(
        (unit.name, "it mixes points without attention weights that could be captured")
        for unit in subject.units
        if unit.kind in ("msa", "mixer") and unit.name not in attending
    )


class HeadMoments(Accumulator):
    """Sums over images of what `measure_heads` gives, per head and for the heads of a layer together."""

    needs_attention = True
    quantities: ClassVar[tuple[str, ...]]

    n: Tensor
    total: Tensor  # (rows, quantities)
    squares: Tensor

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        reasons = {unit.name: self.why_not(unit) for unit in subject.attending}
        self.chosen = [i for i, reason in enumerate(reasons.values()) if reason is None]
        self.units = tuple(subject.attending[i] for i in self.chosen)
        skipped = tuple((name, reason) for name, reason in reasons.items() if reason is not None)
        self.skipped = skipped + _without_weights(subject)
        heads = [sum(site.heads for site in unit.attention.sites) for unit in self.units if unit.attention]
        self.row_unit = np.repeat(np.arange(len(heads)), [1 + h for h in heads])
        self.head = np.array([h for count in heads for h in range(ALL_HEADS, count)], dtype=np.int64)
        rows = (len(self.head), len(self.quantities))
        self.add_sums(total=rows, squares=rows)
        self.add_counts("n")

    @staticmethod
    def why_not(unit: Unit) -> str | None:
        """Why this exam leaves a unit out; None if it does not."""
        return why_not(unit)

    @staticmethod
    def measure_heads(unit: Unit, seen: AttentionMap, n_images: int) -> Tensor:
        """(N, heads, quantities ...) of one attention."""
        raise NotImplementedError

    @classmethod
    def measure_attention(cls, unit: Unit, seen: AttentionMap, n_images: int) -> Tensor:
        """What `measure_heads` gives; nothing for a unit that is left out."""
        if cls.why_not(unit) is not None:
            return torch.zeros(n_images, 0)
        return cls.measure_heads(unit, seen, n_images)

    def update(self, batch: Batch) -> None:
        """Take in the numbers of one batch of images."""
        self.n += len(batch.indices)
        if not self.units:
            return
        found = [torch.cat(batch.attention[i], 1).cpu().double() for i in self.chosen]  # (N, heads, ...)
        for unit, heads in zip(self.units, found, strict=True):
            if (bad := ~torch.isfinite(heads[:, :, 0]).all(1)).any():
                image = int(batch.indices[bad.cpu()][0])
                raise overflown(f"the attention of '{unit.name}' is not finite for image {image}")
        rows = torch.cat([part for heads in found for part in (heads.mean(1, keepdim=True), heads)], 1)
        values = rows[:, :, : len(self.quantities)]
        self.total += values.sum(0)
        self.squares += values.square().sum(0)
        self.take(rows[:, :, len(self.quantities) :])

    def take(self, more: Tensor) -> None:
        """Take in what an exam measures beside its quantities, (N, rows, ...)."""

    def means(self) -> dict[str, Any]:
        """The mean over images of every quantity; arrays are (rows, quantities)."""
        n = int(self.n)
        found = mean_interval(self.total.numpy().copy(), self.squares.numpy().copy(), n)
        most = np.array([1.0 if quantity in SHARES else np.inf for quantity in self.quantities])
        return {"n": n, **found.bounded(most=most)._asdict()}

    def compute(self) -> dict[str, Any]:
        """The means, for exams that have nothing else."""
        return self.means()

    def common(self) -> dict[str, Any]:
        """The fields that all results of heads share: units, and which unit and head each row is."""
        return {
            **super().common(),
            "units": tuple(UnitRow.of(unit) for unit in self.units),
            "skipped": self.skipped,
            "row_unit": self.row_unit.astype(np.int64),
            "head": self.head,
        }


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
    def prefix(self) -> Tensor:
        """(windows, queries): which queries are prefix tokens."""
        return (self.asking > 0) & ~((self.on_map > 0) & self.placed)

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
