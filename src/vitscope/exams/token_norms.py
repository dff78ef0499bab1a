"""How long tokens are, whether some are far longer than the rest, where they sit, and whether attention drains there.

For the tokens x_p of one image after a unit (the points of its map, no class or register tokens), with m the median of
their norms that are not 0,

    outlier      a token with ||x_p|| > FACTOR m
    peak         = max_p ||x_p|| / m
    border       share of outliers in the outermost rows and columns of the map
    contrast     of outliers: mean of c_p / mean_p c_p over them, c_p the standard deviation of the pixels under p

and for the attention a of an MSA (mean over heads and over the queries i that are points of the map), with K keys,

    attention    = sum_{j in tokens} a_ij               of each prefix token, of the outliers, of the other points
    sink         = K a_ij, per token                    1 is what uniform attention gives

Outliers of an MSA are those of the map that it reads: after the unit before. Norms are collected in a histogram of
their logarithms, with 100 bins for a factor of 10: percentiles are over tokens and images, within 2.4 %. Shares and
means are over images, and so are all intervals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from vitscope.anatomy import AttentionMap, Unit
from vitscope.anatomy.taps import Stream
from vitscope.exams.attention import percentile
from vitscope.exams.base import Accumulator, Batch, Subject
from vitscope.exams.head_moments import attention_matrix, why_not
from vitscope.exams.one_pass import examine
from vitscope.exams.token_places import every_point_asks, geometry
from vitscope.interface import takes_interface
from vitscope.intervals import mean_interval, ratio_interval, share_interval
from vitscope.results import About, Result, UnitRow, tidy

FACTOR = 4.0  # times the median: the artefacts that registers cure are at 5 to 10, other tokens stay below 3
PERCENTILES = (5, 50, 95, 99)
DECADES, BINS = (
    (-10.0, 10.0),
    2000,
)  # what is shorter counts as 0, percentiles of what is longer are not known


def norms_of(feature: Tensor) -> Tensor:
    """(N, points): the norm of every point of maps (N, C, H, W)."""
    return torch.linalg.vector_norm(feature.flatten(2).float(), dim=1)


def medians_of(norms: Tensor) -> Tensor:
    """(N,): the median of the norms (N, points) that are not 0; infinite where all are."""
    known = torch.where(norms > 0, norms, torch.nan)
    return torch.nan_to_num(torch.nanquantile(known, 0.5, dim=1), nan=torch.inf)


def outliers_of(norms: Tensor, factor: float = FACTOR) -> Tensor:
    """(N, points), 1 for the tokens that are outliers among those of their image."""
    return (norms > factor * medians_of(norms)[:, None]).to(norms)


def patch_contrast(images: Tensor, grid: tuple[int, int]) -> Tensor:
    """(N, points): the standard deviation of the pixels under each point, divided by its mean over the image's points.

    It is 1 everywhere on a plain image, and NaN where a point is a single pixel.
    """
    points = math.prod(grid)
    if any(side <= cells for side, cells in zip(images.shape[2:], grid, strict=True)):
        return torch.full((len(images), points), torch.nan)
    pixels = images.float()
    pixels = pixels - pixels.mean((2, 3), keepdim=True)
    mean, square = (nn.functional.adaptive_avg_pool2d(x, grid).flatten(2) for x in (pixels, pixels.square()))
    deviation = (square - mean.square()).mean(1).clamp(min=0).sqrt()
    level = deviation.mean(1, keepdim=True)
    return torch.where(level > 0, deviation / level, 1.0)


def received(unit: Unit, seen: AttentionMap, n_images: int) -> Tensor:
    """(N, prefix + points + 1): what an average query on the map gives to each prefix token, to each point, to padding.

    The average is over heads and the queries of all windows, so that the numbers of an image sum to 1.
    """
    seen = every_point_asks(unit, seen)
    places = seen.places
    assert places is not None
    asking = geometry(unit, seen).on_map  # (windows, queries), sums to 1
    weights = attention_matrix(seen).unflatten(0, (n_images, -1)).mean(2)  # (N, windows, queries, keys)
    given = torch.einsum("nwqk,wq->nwk", weights, asking.to(weights)).flatten(1)
    prefix, points = prefix_keys(unit, places.keys), math.prod(places.key_grid)
    nowhere = places.keys < 0
    own = nowhere.long().cumsum(1) - 1 if prefix else torch.full_like(places.keys, prefix + points)
    column = torch.where(nowhere, own, places.keys + prefix).flatten()
    return given.new_zeros(n_images, prefix + points + 1).index_add_(1, column.to(given.device), given)


def prefix_keys(unit: Unit, keys: Tensor) -> int:
    """How many of the keys (windows, keys) are prefix tokens; keys that are nowhere in another number are padding."""
    nowhere = (keys < 0).sum(1)
    if unit.attention is not None and unit.attention.pattern == "class":
        return int(nowhere[0])
    return unit.prefix_tokens if bool((nowhere == unit.prefix_tokens).all()) else 0


def _left_out(unit: Unit, before: UnitRow | None) -> str | None:
    """Why attention of a unit cannot be held against the tokens it reads; None if it can."""
    if reason := why_not(unit):
        return reason
    if before is None or before.map_shape is None:
        return "no map is known that it reads"
    assert unit.attention is not None
    grids = {site.places.key_grid for site in unit.attention.sites if site.places is not None}
    if grids != {before.map_shape[1:]}:
        return "its keys are not the points of the map it reads"
    prefixes = {prefix_keys(unit, site.places.keys) for site in unit.attention.sites if site.places}
    return None if len(prefixes) == 1 else "its attentions see different prefix tokens"


QUANTITIES = (
    "norm",
    *(f"norm_p{p}" for p in PERCENTILES),
    "peak",
    "outliers",
    "outlier_images",
    "border",
    "contrast",
)
OUTLIERS, OTHERS = "outliers", "other points"


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenNormsResult(Result, exam="token_norms"):
    """`value`, `low` and `high` are (units, QUANTITIES); attention has rows of its own."""

    about = About(
        title="Token norms and attention sinks",
        shows="Norms of the tokens after each unit: median, the middle 90 % and the 99th percentile; the share of "
        "tokens with a norm of more than 4 times their image's median; and how much attention these, the class token "
        "and registers receive for each token, where 1 is an even share.",
        papers="Large vision transformers that were trained for long turn a few tokens on plain background into "
        "outliers with 5 to 10 times the norm of the rest, and attention drains into them. Register tokens take over "
        "their part, and the maps become clean (Darcet et al., 2024).",
        misleads="A token may be long because its patch is: in the first units norms follow the contrast of the image. "
        "Where the last norm comes after the unit, norms before it are not what the head reads. Few outliers have wide "
        "intervals, and where there is none they sit nowhere.",
    )

    units: tuple[UnitRow, ...]
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    place_unit: np.ndarray  # index of the unit of each point
    place_share: np.ndarray  # of images in which the point is an outlier
    attending: tuple[UnitRow, ...]
    skipped: tuple[tuple[str, str], ...]  # attention that was left out, and why
    row_unit: np.ndarray  # index of the attending unit of each row
    row_token: tuple[str, ...]
    row_tokens: np.ndarray  # how many tokens the row is about, per image on average
    share: np.ndarray
    share_low: np.ndarray
    share_high: np.ndarray
    sink: np.ndarray
    sink_low: np.ndarray
    sink_high: np.ndarray

    def of(self, quantity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Value and interval of one quantity, a number per unit."""
        column = QUANTITIES.index(quantity)
        return self.value[:, column], self.low[:, column], self.high[:, column]

    def place(self, unit: int) -> np.ndarray:
        """(H, W): the share of images in which each point after a unit is an outlier."""
        shape = self.units[unit].map_shape
        assert shape is not None
        return self.place_share[self.place_unit == unit].reshape(shape[1:])

    def table(self) -> pd.DataFrame:
        """`QUANTITIES` after each unit; `attention` and `sink` of each MSA by `token`."""
        levels = [tidy(name, *self.of(name), self.n, self.units) for name in QUANTITIES]
        units, tokens = [self.attending[i] for i in self.row_unit], list(self.row_token)
        share = tidy("attention", self.share, self.share_low, self.share_high, self.n, units, token=tokens)
        sink = tidy("sink", self.sink, self.sink_low, self.sink_high, self.n, units, token=tokens)
        return pd.concat([*levels, share, sink], ignore_index=True)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The numbers, where outliers sit, and the attention that was left out."""
        width = np.array([u.map_shape[2] if u.map_shape else 1 for u in self.units], dtype=np.int64)[
            self.place_unit
        ]
        first = np.searchsorted(self.place_unit, self.place_unit)
        point = np.arange(len(self.place_unit)) - first
        names = [self.units[i].name for i in self.place_unit]
        places = {"unit": names, "row": point // width, "column": point % width, "share": self.place_share}
        skipped = pd.DataFrame(list(self.skipped), columns=["unit", "reason"])
        return {**super().tables(), "places": pd.DataFrame(places), "skipped": skipped}


class TokenNormsAccumulator(Accumulator):
    """Collects norms after every unit and attention received by every token over images."""

    result = TokenNormsResult
    needs_maps = True
    needs_attention = True

    n: Tensor
    histogram: Tensor  # (units, bins): sum over images of each one's shares
    cumulative_squares: Tensor
    total: Tensor  # (units, 4): norm, peak, outliers, whether there is any
    squares: Tensor
    counted: Tensor  # (units, 2): sum and sum of squares of the number of outliers
    ratios: Tensor  # (units, 2, 3): for border and contrast, sums of y, y squared, and x y
    places: Tensor  # (points of all units,)
    shares: Tensor  # (rows, 2): attention received, sum and sum of squares
    sinks: Tensor  # (attending units, 5): sums of y, y squared, x y, x, x squared of outliers
    sunk: Tensor  # (attending units,): images that have any

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        units = subject.units
        index = {unit.name: i for i, unit in enumerate(units)}
        self.points = [math.prod(unit.map_shape[1:]) if unit.map_shape else 1 for unit in units]
        before = [self._before(unit, units, index) for unit in subject.attending]
        reasons = [
            _left_out(unit, None if at is None else units[at])
            for unit, at in zip(subject.attending, before, strict=True)
        ]
        self.chosen = [i for i, reason in enumerate(reasons) if reason is None]
        self.reads = [at for at in (before[i] for i in self.chosen) if at is not None]
        self.attending = [subject.attending[i] for i in self.chosen]
        self.skipped = tuple(
            (unit.name, reason) for unit, reason in zip(subject.attending, reasons, strict=True) if reason
        )
        self.prefix = [prefix_keys(unit, _first_keys(unit)) for unit in self.attending]
        for name in ("histogram", "cumulative_squares"):
            self.add_sum(name, (len(units), BINS))
        self.add_sum("total", (len(units), 4))
        self.add_sum("squares", (len(units), 4))
        self.add_sum("counted", (len(units), 2))
        self.add_sum("ratios", (len(units), 2, 3))
        self.add_sum("places", (sum(self.points),))
        self.add_sum("shares", (sum(self.prefix) + 2 * len(self.prefix), 2))
        self.add_sum("sinks", (len(self.attending), 5))
        self.add_sum("sunk", (len(self.attending),))
        self.add_sum("n", dtype=torch.int64)

    @staticmethod
    def _before(unit: Unit, units: Sequence[UnitRow], index: dict[str, int]) -> int | None:
        """The unit whose map an attending one reads: the one before it, or the last if it leaves no map itself."""
        at = index.get(unit.name, len(units)) - 1
        return at if at >= 0 else None

    @staticmethod
    def measure(feature: Tensor) -> Tensor:
        """The norms."""
        return norms_of(feature)

    @staticmethod
    def measure_attention(unit: Unit, seen: AttentionMap, n_images: int) -> Tensor:
        """What tokens receive; nothing where that has no meaning on the map."""
        if why_not(unit) is not None:
            return torch.zeros(n_images, 0)
        heads = seen.weights.shape[1]
        return received(unit, seen, n_images) * heads

    def update(self, batch: Batch) -> None:
        """Take in one batch of images."""
        assert batch.images is not None
        self.n += len(batch.indices)
        marks: list[Tensor] = []
        contrasts: dict[tuple[int, int], Tensor] = {}
        images, start = batch.images.cpu(), 0
        for i, (unit, norms) in enumerate(zip(self.subject.units, batch.values, strict=True)):
            norms = norms.cpu().double()
            _, height, width = unit.map_shape or (0, 1, norms.shape[1])
            grid = (height, width)
            if grid not in contrasts:
                contrasts[grid] = patch_contrast(images, grid).double()
            marked = outliers_of(norms)
            marks.append(marked)
            self._take_unit(i, norms, marked, contrasts[grid], _border(grid))
            self.places[start : start + norms.shape[1]] += marked.sum(0)
            start += norms.shape[1]
        row = 0
        for j, (place, reads) in enumerate(zip(self.chosen, self.reads, strict=True)):
            unit_shares = self._take_attention(j, batch.attention[place], marks[reads])
            rows = unit_shares.shape[1]
            self.shares[row : row + rows, 0] += unit_shares.sum(0)
            self.shares[row : row + rows, 1] += unit_shares.square().sum(0)
            row += rows

    def _take_unit(self, i: int, norms: Tensor, marked: Tensor, contrast: Tensor, border: Tensor) -> None:
        median = medians_of(norms)
        low, high = DECADES
        place = (norms.clamp(min=10.0**low).log10() - low) * (BINS / (high - low))
        bins = place.clamp_(0, BINS - 1).long()
        one = torch.full_like(norms, 1 / norms.shape[1])
        shares = norms.new_zeros(len(norms), BINS).scatter_add_(1, bins, one)
        self.histogram[i] += shares.sum(0)
        self.cumulative_squares[i] += shares.cumsum(1).square().sum(0)
        count = marked.sum(1)
        numbers = torch.stack(
            [norms.mean(1), norms.amax(1) / median, marked.mean(1), (count > 0).double()], 1
        )
        self.total[i] += numbers.sum(0)
        self.squares[i] += numbers.square().sum(0)
        self.counted[i] += torch.stack([count.sum(), count.square().sum()])
        for k, weight in enumerate((border.expand_as(marked), contrast)):
            y = (marked * weight).sum(1)
            self.ratios[i, k] += torch.stack([y.sum(), y.square().sum(), (y * count).sum()])

    def _take_attention(self, j: int, seen: Sequence[Tensor], marked: Tensor) -> Tensor:
        """(N, prefix + 2): shares of prefix tokens, outliers, other points."""
        attention = self.attending[j].attention
        assert attention is not None
        heads = sum(site.heads for site in attention.sites)
        given = torch.stack(list(seen)).sum(0).cpu().double() / heads
        prefix = self.prefix[j]
        points = given[:, prefix : prefix + marked.shape[1]]
        into = (points * marked).sum(1)
        keys, count = prefix + marked.shape[1], marked.sum(1)
        y = into * keys
        self.sinks[j] += torch.stack(
            [y.sum(), y.square().sum(), (y * count).sum(), count.sum(), count.square().sum()]
        )
        self.sunk[j] += (count > 0).sum()
        return torch.cat([given[:, :prefix], into[:, None], (points.sum(1) - into)[:, None]], 1)

    def compute(self) -> dict[str, Any]:
        """Means, percentiles and ratios with their intervals."""
        n = int(self.n)
        norm, peak, outliers = (
            mean_interval(self.total[:, k].numpy().copy(), self.squares[:, k].numpy().copy(), n)
            for k in range(3)
        )
        columns = [norm, *self._percentiles(n), peak, _bounded(outliers)]
        having = self.total[:, 3].numpy().copy()
        columns.append((having / n, *share_interval(having, n)))
        count, count_squares = self.counted.numpy().T
        for k, most in enumerate((1.0, np.inf)):
            y, yy, xy = self.ratios[:, k].numpy().T
            value, low, high = ratio_interval(y, count, yy, xy, count_squares, having)
            columns.append((value, np.maximum(low, 0.0), np.minimum(high, most)))
        value, low, high = (np.stack([c[k] for c in columns], 1) for k in range(3))
        return {
            "n": n,
            "value": value,
            "low": np.where(np.isnan(low), np.nan, np.maximum(low, 0.0)),
            "high": high,
            "place_unit": np.repeat(np.arange(len(self.points)), self.points),
            "place_share": self.places.numpy() / n,
            "attending": tuple(UnitRow.of(unit) for unit in self.attending),
            "skipped": self.skipped,
            **self._attention(n),
        }

    def _percentiles(self, n: int) -> list[tuple[np.ndarray, ...]]:
        low, high = DECADES
        found = []
        for share in PERCENTILES:
            rows = [
                percentile(shares, squares, n, high - low, share / 100)
                for shares, squares in zip(
                    self.histogram.numpy(), self.cumulative_squares.numpy(), strict=True
                )
            ]
            places = np.array(rows).reshape(-1, 3).T
            bin_width = (high - low) / BINS
            known = np.where(places > high - low - bin_width, np.nan, 10.0 ** (places + low))
            found.append(tuple(np.where(places <= bin_width, 0.0, known)))
        return found

    def _attention(self, n: int) -> dict[str, Any]:
        total, squares = self.shares.numpy().T
        share, low, high = _bounded(mean_interval(total.copy(), squares.copy(), n))
        y, yy, xy, count, count_squares = self.sinks.numpy().T
        drained = ratio_interval(y, count, yy, xy, count_squares, self.sunk.numpy())
        owner: list[int] = []
        tokens: list[str] = []
        number: list[float] = []
        sinks: list[tuple[float, ...]] = []
        for j, (prefix, reads) in enumerate(zip(self.prefix, self.reads, strict=True)):
            points, row, outliers = self.points[reads], len(owner), float(count[j]) / n
            keys = prefix + points
            owner += [j] * (prefix + 2)
            tokens += [*(f"prefix {k}" for k in range(prefix)), OUTLIERS, OTHERS]
            number += [*([1.0] * prefix), outliers, points - outliers]
            sinks += [
                (keys * share[row + k], keys * low[row + k], keys * high[row + k]) for k in range(prefix)
            ]
            sinks.append(tuple(end[j] for end in drained))
            scale = keys / max(points - outliers, 1.0)
            sinks.append(tuple(scale * end[row + prefix + 1] for end in (share, low, high)))
        sink, sink_low, sink_high = np.array(sinks, dtype=np.float64).reshape(-1, 3).T.copy()
        return {
            "row_unit": np.array(owner, dtype=np.int64),
            "row_token": tuple(tokens),
            "row_tokens": np.array(number, dtype=np.float64),
            "share": share,
            "share_low": low,
            "share_high": high,
            "sink": sink,
            "sink_low": np.maximum(sink_low, 0.0),
            "sink_high": sink_high,
        }

    def common(self) -> dict[str, Any]:
        """The units are part of the result."""
        return {**super().common(), "units": self.subject.units}


def _first_keys(unit: Unit) -> Tensor:
    assert unit.attention is not None
    places = unit.attention.sites[0].places
    assert places is not None
    return places.keys


def _border(grid: tuple[int, int]) -> Tensor:
    """(points,): 1 in the outermost rows and columns."""
    border = torch.ones(grid, dtype=torch.float64)
    border[1:-1, 1:-1] = 0.0
    return border.flatten()


def _bounded(found: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """The same means of shares with an interval inside [0, 1]; none where no image has any."""
    value, low, high = found
    seen = value > 0
    return value, np.where(seen, np.maximum(low, 0.0), np.nan), np.where(seen, np.minimum(high, 1.0), np.nan)


@takes_interface
def token_norms(
    model: nn.Module,
    data: Any,
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    stream: Stream = "read",
) -> TokenNormsResult:
    """Examine the norms of `model`'s tokens on `data` and who receives attention; `examine` documents the arguments."""
    results = examine(model, data, [TokenNormsAccumulator], limit, batch_size, seed, device, stream=stream)
    return cast(TokenNormsResult, results["token_norms"])
