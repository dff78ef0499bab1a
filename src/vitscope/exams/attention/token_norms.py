"""How long tokens are, whether some are far longer than the rest, where they sit, and whether attention drains there.

For the tokens x_p of one image after a unit (the points of its map, no class or register tokens), with m the median of
their norms that are not 0,

    outlier      a token with ||x_p|| > 4 m
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

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.anatomy import AttentionMap, Unit
from vitscope.core.statistics import (
    Estimate,
    histogram_percentile,
    mean_interval,
    ratio_interval,
    share_interval,
)
from vitscope.engine.exam import Accumulator, Batch, Subject
from vitscope.engine.heads import why_not
from vitscope.engine.single_exam import single_exam
from vitscope.engine.token_outliers import (
    border,
    medians_of,
    norms_of,
    not_of_its_map,
    outliers_of,
    patch_contrast,
    prefix_of,
    received,
)
from vitscope.findings.token_norms import OTHERS, OUTLIERS, PERCENTILES, TokenNormsResult
from vitscope.results import UnitRow

LEAST, MOST = -10.0, 10.0  # logarithms of norms: shorter counts as 0, percentiles beyond are not known
BINS = 2000


class TokenNormsAccumulator(Accumulator):
    """Collects norms after every unit and attention received by every token over images."""

    result = TokenNormsResult
    needs_maps = True
    needs_attention = True
    measure = staticmethod(norms_of)

    n: Tensor
    histogram: Tensor  # (units, bins): sum over images of each one's shares
    cumulative_squares: Tensor
    total: Tensor  # (units, 4): norm, peak, outliers, whether there is any
    squares: Tensor
    ratios: Tensor  # (units, 2, sums): border and contrast of outliers
    places: Tensor  # (points of all units,)
    shares: Tensor  # (rows, 2): attention received, sum and sum of squares
    sinks: Tensor  # (attending units, sums): attention of outliers

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        units = subject.units
        index = {unit.name: i for i, unit in enumerate(units)}
        # the unit whose map is read: the one before, or the last where an attending one leaves no map itself
        before = [index.get(unit.name, len(units)) - 1 for unit in subject.attending]
        maps = [units[at] if at >= 0 else None for at in before]
        reasons = {u.name: not_of_its_map(u, read) for u, read in zip(subject.attending, maps, strict=True)}
        self.chosen = [i for i, reason in enumerate(reasons.values()) if reason is None]
        self.reads = [before[i] for i in self.chosen]
        self.attending = [subject.attending[i] for i in self.chosen]
        self.skipped = tuple((name, reason) for name, reason in reasons.items() if reason)
        self.points = [prod(unit.map_shape[1:]) if unit.map_shape else 1 for unit in units]
        self.prefix = [max(prefix_of(unit)) for unit in self.attending]
        self.add_sums(
            histogram=(len(units), BINS),
            cumulative_squares=(len(units), BINS),
            total=(len(units), 4),
            squares=(len(units), 4),
            ratios=(len(units), 2, 6),
            places=(sum(self.points),),
            shares=(sum(prefix + 2 for prefix in self.prefix), 2),
            sinks=(len(self.attending), 6),
        )
        self.add_counts("n")

    @staticmethod
    def measure_attention(unit: Unit, seen: AttentionMap, n_images: int) -> Tensor:
        """What tokens receive from all heads together; nothing where that has no meaning on the map."""
        if why_not(unit) is not None:
            return torch.zeros(n_images, 0)
        return received(unit, seen, n_images) * seen.weights.shape[1]

    def update(self, batch: Batch) -> None:
        """Take in one batch of images."""
        assert batch.images is not None
        self.n += len(batch.indices)
        images, contrasts = batch.images.cpu(), {}
        marks: list[Tensor] = []
        for i, (unit, norms) in enumerate(zip(self.subject.units, batch.values, strict=True)):
            norms = norms.cpu().double()
            grid = (unit.map_shape or (0, 1, 1))[1:]
            if grid not in contrasts:
                contrasts[grid] = patch_contrast(images, grid).double()
            marks.append(outliers_of(norms))
            self._take_norms(i, norms, marks[-1])
            for k, weight in enumerate((border(grid), contrasts[grid])):
                self.ratios[i, k] += _ratio_sums((marks[-1] * weight).sum(1), marks[-1].sum(1))
        self.places += torch.cat([marked.sum(0) for marked in marks])
        seen = [
            self._take_attention(j, batch.attention[place], marks[reads])
            for j, (place, reads) in enumerate(zip(self.chosen, self.reads, strict=True))
        ]
        if seen:
            rows = torch.cat(seen, 1)
            self.shares += torch.stack([rows.sum(0), rows.square().sum(0)], 1)

    def _take_norms(self, i: int, norms: Tensor, marked: Tensor) -> None:
        place = (norms.log10() - LEAST) * (BINS / (MOST - LEAST))
        bins = place.clamp_(0, BINS - 1).long()
        one = torch.full_like(norms, 1 / norms.shape[1])
        shares = norms.new_zeros(len(norms), BINS).scatter_add_(1, bins, one)
        self.histogram[i] += shares.sum(0)
        self.cumulative_squares[i] += shares.cumsum(1).square().sum(0)
        peak = norms.amax(1) / medians_of(norms)
        numbers = torch.stack([norms.mean(1), peak, marked.mean(1), marked.amax(1)], 1)
        self.total[i] += numbers.sum(0)
        self.squares[i] += numbers.square().sum(0)

    def _take_attention(self, j: int, seen: Sequence[Tensor], marked: Tensor) -> Tensor:
        """(N, prefix + 2): shares of prefix tokens, outliers, other points."""
        attention, prefix, points = self.attending[j].attention, self.prefix[j], marked.shape[1]
        assert attention is not None
        heads = sum(site.heads for site in attention.sites)
        given = torch.stack(list(seen)).sum(0).cpu().double() / heads
        of_points = given[:, prefix : prefix + points]
        into = (of_points * marked).sum(1)
        self.sinks[j] += _ratio_sums(into * (prefix + points), marked.sum(1))
        return torch.cat([given[:, :prefix], into[:, None], (of_points.sum(1) - into)[:, None]], 1)

    def compute(self) -> dict[str, Any]:
        """Means, percentiles and ratios with their intervals."""
        n, total, squares = int(self.n), self.total.numpy().T.copy(), self.squares.numpy().T.copy()
        norm, peak, outliers = (mean_interval(total[k], squares[k], n) for k in range(3))
        placed = [ratio_interval(self.ratios[:, k].numpy()) for k in range(2)]
        columns = [norm, *self._percentiles(n), peak, _bounded(outliers)]
        columns += [Estimate(total[3] / n, *share_interval(total[3], n)), _bounded(placed[0]), placed[1]]
        value, low, high = (np.stack(numbers, 1) for numbers in zip(*columns, strict=True))
        return {
            "n": n,
            "value": value,
            "low": np.maximum(low, 0.0),
            "high": high,
            "place_unit": np.repeat(np.arange(len(self.points)), self.points),
            "place_share": self.places.numpy() / n,
            "attending": tuple(UnitRow.of(unit) for unit in self.attending),
            "skipped": self.skipped,
            **self._attention(n),
        }

    def _percentiles(self, n: int) -> list[Estimate[np.ndarray]]:
        width, found = (MOST - LEAST) / BINS, []
        for share in PERCENTILES:
            sums = zip(self.histogram.numpy(), self.cumulative_squares.numpy(), strict=True)
            rows = [
                histogram_percentile(shares, squares, n, MOST - LEAST, share / 100)
                for shares, squares in sums
            ]
            places = np.array(rows).reshape(-1, 3).T + LEAST
            known = np.where(places > MOST - width, np.nan, 10.0**places)
            found.append(Estimate(*np.where(places <= LEAST + width, 0.0, known)))
        return found

    def _attention(self, n: int) -> dict[str, Any]:
        """Rows of every attending unit: its prefix tokens, the outliers, the other points."""
        prefix = np.array(self.prefix, dtype=np.int64)
        points = np.array(self.points, dtype=np.float64)[self.reads]
        outliers = self.sinks[:, 1].numpy() / n
        owner = np.repeat(np.arange(len(prefix)), prefix + 2)
        tokens = [[*(f"prefix {k}" for k in range(count)), OUTLIERS, OTHERS] for count in self.prefix]
        number = [[*[1.0] * count, o, p - o] for count, p, o in zip(prefix, points, outliers, strict=True)]
        row_token = tuple(token for found in tokens for token in found)
        row_tokens = np.array([one for found in number for one in found], dtype=np.float64)
        total, squares = self.shares.numpy().T.copy()
        share = _bounded(mean_interval(total, squares, n))
        even = (prefix + points)[owner] / np.maximum(row_tokens, 1.0)
        sink = np.stack([end * even for end in share])
        of_outliers = np.array([token == OUTLIERS for token in row_token], dtype=bool)
        sink[:, of_outliers] = ratio_interval(self.sinks.numpy())
        return {
            "row_unit": owner.astype(np.int64),
            "row_token": row_token,
            "row_tokens": row_tokens,
            "share": share,
            "sink": Estimate(sink[0], np.maximum(sink[1], 0.0), sink[2]),
        }


def _ratio_sums(y: Tensor, x: Tensor) -> Tensor:
    """What `ratio_interval` takes, over the images of a batch."""
    terms = [y, x, y.square(), x * y, x.square(), (x > 0).to(x)]
    return torch.stack([term.sum() for term in terms])


def _bounded(found: Estimate[np.ndarray]) -> Estimate[np.ndarray]:
    """The same means of shares with an interval inside [0, 1]; none where no image has any."""
    value, *ends = found.bounded()
    return Estimate(value, *(np.where(value > 0, end, np.nan) for end in ends))


token_norms = single_exam(
    TokenNormsAccumulator, "the norms of `model`'s tokens on `data` and who receives attention"
)
