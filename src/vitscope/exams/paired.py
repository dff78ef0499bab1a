"""Two models on the same images: differences with paired intervals, and the images that only one gets right.

Bootstrap weights depend on the seed and the place of an image in the data alone, so that replicate r of two results has
drawn the same images. With q_a, q_b the values and q_a^r, q_b^r the replicates of a quantity,

    difference = q_a - q_b,  replicates q_a^r - q_b^r,  bias = mean of the replicates - difference

and the interval is the middle 95 % of the replicates, and twice the bias further on the side that the bias leads away
from: replicates are as far from the difference as that is from the truth. Means have next to no bias, calibration
errors do.
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd

from vitscope.errors import VitscopeError
from vitscope.exams.bootstrap import percentile_interval
from vitscope.exams.lesion import paired_interval
from vitscope.exams.prediction_result import PredictionResult
from vitscope.results import Result, tidy


@runtime_checkable
class Replicated(Protocol):
    """A result that can be compared image by image."""

    def replicates(self) -> dict[str, np.ndarray]:
        """By quantity, or "quantity, condition", (1 + replicates,): the value, then what each replicate gives."""


@dataclass(frozen=True)
class Flips:
    """Images by which of two models is right about them."""

    both: int
    only_first: int
    only_second: int
    neither: int

    @property
    def n(self) -> int:
        """All images."""
        return self.both + self.only_first + self.only_second + self.neither

    @property
    def difference(self) -> float:
        """Accuracy of the first minus that of the second."""
        return (self.only_first - self.only_second) / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the difference from the pairs (Agresti and Min), also where nothing flips."""
        changed = self.only_first + self.only_second
        low, high = paired_interval(self.only_first - self.only_second, changed, self.n)
        return float(low), float(high)

    @property
    def p_value(self) -> float:
        """McNemar's exact test: how often chance alone would share the flips out at least as unevenly."""
        fewer, flips = sorted((self.only_first, self.only_second))[0], self.only_first + self.only_second
        logs = [_log_binomial(flips, k) - flips * math.log(2) for k in range(fewer + 1)]
        return min(1.0, 2 * math.fsum(map(math.exp, logs)))


def differences(first: Result, second: Result) -> pd.DataFrame:
    """Every quantity of `first` minus that of `second`, with paired intervals; no rows if they keep no replicates."""
    both = [result.replicates() if isinstance(result, Replicated) else {} for result in (first, second)]
    if any(both):
        check_same_images(first, second)
    common = [quantity for quantity in both[0] if quantity in both[1]]
    rows = [_difference(both[0][quantity] - both[1][quantity]) for quantity in common]
    value, low, high = np.array(rows).reshape(-1, 3).T
    parts = [quantity.partition(", ") for quantity in common]
    conditions = [condition or None for _, _, condition in parts]
    return tidy([name for name, _, _ in parts], value, low, high, first.n, condition=conditions)


def flips(first: PredictionResult, second: PredictionResult) -> Flips:
    """Count the images that both, one or none of two models get right."""
    check_same_images(first, second)
    ours, theirs = first.outcomes()[1], second.outcomes()[1]
    return Flips(
        both=int((ours & theirs).sum()),
        only_first=int((ours & ~theirs).sum()),
        only_second=int((~ours & theirs).sum()),
        neither=int((~ours & ~theirs).sum()),
    )


def check_same_images(first: Result, second: Result) -> None:
    """Refuse two results that are not of the same exam on the same images with the same seed."""
    for what in ("exam", "data", "n", "seed"):
        ours, theirs = getattr(first, what), getattr(second, what)
        if ours != theirs:
            raise VitscopeError(
                f"{first.model} and {second.model} cannot be compared image by image: {what} is {ours} and {theirs}; "
                "evaluate both with the same data, limit and seed"
            )
    ours, theirs = (np.asarray(getattr(result, "seen", ())) for result in (first, second))
    if not np.array_equal(ours, theirs):
        raise VitscopeError(
            f"{first.model} and {second.model} have not seen the same images; evaluate both in one command"
        )


def _difference(replicates: np.ndarray) -> tuple[float, float, float]:
    """Value and interval of (1 + replicates,) differences."""
    value, drawn = float(replicates[0]), replicates[1:]
    if not np.isfinite(drawn).any():
        return value, np.nan, np.nan
    low, high = percentile_interval(drawn)
    bias = float(np.nanmean(drawn)) - value
    return value, float(low) - 2 * max(bias, 0.0), float(high) - 2 * min(bias, 0.0)


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
