"""What attention looks at: how widely, how far, at what, and whether heads differ.

For the attention a of one image and head (rows are queries i and sum to 1 over keys j),

    entropy     = mean_i  - sum_j a_ij log a_ij                     at most mean_i log N_i, N_i the keys i can see
    distance    = mean_i  sum_j a_ij ||p_i - p_j||_1                p = ((y + 1/2) / H, (x + 1/2) / W)
    prefix      = mean_i  sum_{j no point of the map} a_ij
    diagonal    = mean_i  a_ii
    similarity  = mean over other heads b of  <a, b> / (||a|| ||b||)

Entropy is over all queries, `class_entropy` over prefix tokens alone; distance, prefix and diagonal are over the
queries that are points of the map, and the distance takes only keys that are. The paper writes the distance as an
expectation over pairs i != j: that is this sum divided by N - 1. `distance_patches` counts rows and columns of the map
in the place of p. A layer's row is the mean over its heads. `entropy_p15` is the 15th percentile over queries and
images (and heads), from a histogram of 256 bins between 0 and log N, linear inside a bin: exact to log N / 256,
N the largest N_i.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.anatomy import AttentionMap, Unit
from vitscope.core.statistics import Estimate, histogram_percentile
from vitscope.engine.exam import Subject
from vitscope.engine.heads import (
    Geometry,
    HeadMoments,
    attention_matrix,
    every_point_asks,
    geometry,
    visible_keys,
)
from vitscope.engine.single_exam import single_exam
from vitscope.findings.attention import QUANTITIES, AttentionResult

LOWEST = 0.15  # the percentile of the entropy
BINS = 256
TINY = 1e-30  # keeps 0 log 0 at 0
CHUNK = 1 << 20  # weights looked at together on a CPU: few enough to stay in its cache


def entropy_bound(unit: Unit) -> float:
    """The entropy of uniform attention, its mean over queries."""
    return float(np.log(visible_keys(unit)).mean())


def largest_entropy(unit: Unit) -> float:
    """That of the query that sees most keys."""
    return math.log(visible_keys(unit).max())


def head_statistics(weights: Tensor, places: Geometry, n_images: int, bound: float) -> Tensor:
    """(N, heads, quantities + bins): per image and head, `QUANTITIES` and the histogram of the entropy up to `bound`.

    `weights` are (images x windows, heads, queries, keys).
    """
    weights = weights.unflatten(0, (n_images, -1))
    size = max(1, CHUNK // weights[0].numel()) if weights.device.type == "cpu" else n_images
    return torch.cat([_statistics(piece, places, bound) for piece in weights.split(size)])


def _statistics(weights: Tensor, places: Geometry, bound: float) -> Tensor:
    """The same for weights (N, windows, heads, queries, keys)."""
    entropy = (weights + TINY).log_().mul_(weights).sum(-1).neg_().transpose(1, 2).flatten(2)
    if not places.whole:
        weights = weights * (places.asking > 0).to(weights)[:, None, :, None]
    shares = places.asking.to(weights).flatten()
    bins = (entropy * (BINS / (bound or 1.0))).long().clamp_(0, BINS - 1)
    histogram = weights.new_zeros(*bins.shape[:2], BINS).scatter_add_(2, bins, shares.expand(bins.shape))
    flat = weights.flatten(3)
    sums = torch.einsum("nwhe,wec->nhc", flat, _columns(places).to(weights))
    prefix = places.prefix.to(weights).flatten()
    prefix = prefix / prefix.sum()  # NaN where no query is a prefix token
    levels = torch.stack([entropy @ shares, entropy @ prefix], 2)
    return torch.cat([levels, sums, _similarity((flat @ flat.mT).sum(1)), histogram], 2)


def _similarity(gram: Tensor) -> Tensor:
    """(N, heads, 1): mean cosine of each head with the others, from the heads' inner products."""
    norm = gram.diagonal(dim1=1, dim2=2).sqrt()
    cosine = gram / (norm[:, :, None] * norm[:, None, :])
    others = gram.shape[1] - 1
    return (cosine.sum(2, keepdim=True) - 1) / others if others else torch.full_like(gram, torch.nan)


@lru_cache(maxsize=16)
@torch.inference_mode(False)
def _columns(places: Geometry) -> Tensor:
    """(windows, queries x keys, 4): what weights are multiplied by and summed to distance ... diagonal."""
    height, width = places.grid
    distance = places.rows / height + places.columns / width
    off_map = places.off_map[:, None, :].expand_as(distance)
    found = torch.stack([distance, places.rows + places.columns, off_map, places.own], -1)
    if not places.placed:
        found[..., [0, 1, 3]] = torch.nan
    return (found * places.on_map[:, :, None, None]).flatten(1, 2)


class AttentionAccumulator(HeadMoments):
    """Collects `head_statistics` of every MSA over images."""

    result = AttentionResult
    quantities = QUANTITIES

    histogram: Tensor  # (rows, bins): sum over images of each one's shares
    cumulative_squares: Tensor  # (rows, bins): sum over images of the squares of cumulative shares

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self.add_sums(histogram=(len(self.head), BINS), cumulative_squares=(len(self.head), BINS))

    @staticmethod
    def measure_heads(unit: Unit, seen: AttentionMap, n_images: int) -> Tensor:
        """`head_statistics` of one attention."""
        seen = every_point_asks(unit, seen)
        places = geometry(unit, seen)
        return head_statistics(attention_matrix(seen), places, n_images, largest_entropy(unit))

    def take(self, more: Tensor) -> None:
        """The histograms of one batch."""
        self.histogram += more.sum(0)
        self.cumulative_squares += more.cumsum(2).square().sum(0)

    def compute(self) -> dict[str, Any]:
        """Means over images, and the percentile with its interval."""
        bound = np.array([entropy_bound(unit) for unit in self.units], dtype=np.float64)
        ends = np.array([largest_entropy(unit) for unit in self.units], dtype=np.float64)[self.row_unit]
        rows = zip(self.histogram.numpy(), self.cumulative_squares.numpy(), ends, strict=True)
        found = [
            histogram_percentile(shares, squares, int(self.n), end, LOWEST) for shares, squares, end in rows
        ]
        numbers = Estimate(*np.array(found).reshape(-1, 3).T.copy())
        return {**self.means(), "bound": bound, "percentile": numbers}


attention = single_exam(AttentionAccumulator, "what `model`'s attention looks at on `data`")
