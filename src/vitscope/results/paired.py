"""Two models on the same images: differences with paired intervals, and the images that only one gets right.

Bootstrap weights depend on the seed and the place of an image in the data alone, so that replicate r of two results has
drawn the same images. With q_a, q_b the values and q_a^r, q_b^r the replicates of a quantity,

    difference = q_a - q_b,        replicates q_a^r - q_b^r

The interval of a difference is

    of shares (accuracy, drop ...)     Agresti and Min's, with the standard deviation of the replicates as its error
    of calibration errors              made of the two intervals, which know how far noise raises each (Zou and Donner),
                                       and of the correlation of the replicates
    of everything else                 the middle 95 % of the replicates, and twice their bias further on the side that
                                       it leads away from; means have next to none
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from vitscope.core import pd
from vitscope.core.bootstrap import correlation, of_few, percentile_interval, standard_error
from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import Estimate, difference_interval, difference_of, paired_interval
from vitscope.results import Result
from vitscope.results.numbers import by_name
from vitscope.results.table import tidy_differences

SHARES = ("accuracy", "top5", "signed_ece", "consistency", "drop", "shape_bias")
RAISED = ("ece", "adaptive_ece", "scaled_ece")  # by noise


@runtime_checkable
class Replicated(Protocol):
    """A result that can be compared image by image."""

    def replicates(self) -> dict[str, np.ndarray]:
        """By quantity, or "quantity, condition", (1 + replicates,): the value, then what each replicate gives."""


@runtime_checkable
class KnowsImages(Protocol):
    """A result that says which images a model gets right, as that of `prediction` does."""

    def outcomes(self) -> tuple[np.ndarray, np.ndarray]:
        """The images that were seen, ascending, and whether each was right."""


@dataclass(frozen=True)
class Flips:
    """Images by which of a model and its reference is right about them."""

    both: int
    gained: int  # the model alone
    lost: int  # the reference alone
    neither: int

    @property
    def n(self) -> int:
        """All images."""
        return self.both + self.gained + self.lost + self.neither

    @property
    def difference(self) -> float:
        """Accuracy of the model minus that of the reference."""
        return (self.gained - self.lost) / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the difference from the pairs (Agresti and Min), also where nothing flips."""
        changed = self.gained + self.lost
        low, high = paired_interval(self.gained - self.lost, changed, self.n)
        return float(low), float(high)

    @property
    def p_value(self) -> float:
        """McNemar's exact test: how often chance alone would share the flips out at least as unevenly."""
        from scipy.special import bdtr

        fewer = min(self.gained, self.lost)
        return min(1.0, 2 * float(bdtr(fewer, self.gained + self.lost, 0.5)))


def differences(first: Result, second: Result) -> pd.DataFrame:
    """Every quantity of `first` minus that of `second`, with paired intervals; no rows if they keep no replicates."""
    ours, theirs = (one.replicates() if isinstance(one, Replicated) else {} for one in (first, second))
    if ours or theirs:
        check_same_images(first, second)
    common = [label for label in ours if label in theirs]
    known = [_estimates(result) if common else {} for result in (first, second)]
    n = int(getattr(first, "blocks", getattr(first, "pairs", first.n)))  # that the bootstrap draws
    names, rows = [], []
    for label in common:
        names.append(label.partition(", ")[::2])
        ends = [found[label] for found in known if label in found]
        rows.append(difference_of_replicates(names[-1][0], ours[label], theirs[label], n, ends))
    value, low, high = np.array(rows).reshape(-1, 3).T
    conditions = [condition or None for _, condition in names]
    quantities = [name for name, _ in names]
    return tidy_differences(quantities, value, low, high, first.n, condition=conditions)


def flips(first: Result, second: Result) -> Flips:
    """Count the images that both, one or none of two models get right."""
    check_same_images(first, second)
    assert isinstance(first, KnowsImages)
    assert isinstance(second, KnowsImages)
    ours, theirs = first.outcomes()[1], second.outcomes()[1]
    return Flips(
        both=int((ours & theirs).sum()),
        gained=int((ours & ~theirs).sum()),
        lost=int((~ours & theirs).sum()),
        neither=int((~ours & ~theirs).sum()),
    )


def check_same_images(first: Result, second: Result) -> None:
    """Refuse two results that are not of the same exam on the same images with the same seed.

    Images without a name (tensors) are known by their pixels; those of results without a digest by what they were.
    """
    for what in ("exam", "data", "n", "seed"):
        ours, theirs = getattr(first, what), getattr(second, what)
        if ours != theirs:
            raise VitscopeError(
                f"{first.model} and {second.model} cannot be compared image by image: {what} is {ours} and {theirs}; "
                "evaluate both with the same data, limit and seed"
            )
    if first.images_digest and second.images_digest and first.images_digest != second.images_digest:
        raise VitscopeError(
            f"{first.model} and {second.model} cannot be compared image by image: both saw {first.data}, but with "
            "other images or labels; evaluate both with the same"
        )
    ours, theirs = (np.asarray(getattr(result, "seen", ())) for result in (first, second))
    if not np.array_equal(ours, theirs):
        raise VitscopeError(
            f"{first.model} and {second.model} have not seen the same images; evaluate both in one command"
        )


def difference_of_replicates(
    name: str, first: np.ndarray, second: np.ndarray, n: int, known: list[Estimate[float]]
) -> Estimate[float]:
    """A difference, from (1 + replicates,) of both over `n` independent images, and both themselves, if known."""
    replicates = first - second
    value, drawn = float(replicates[0]), replicates[1:]
    if not np.isfinite(drawn).any():
        return Estimate(value, np.nan, np.nan)
    if name in SHARES:
        low, high = difference_interval(value, of_few(standard_error(drawn), n), n)
    elif name in RAISED and len(known) == 2 and replicates.any():
        low, high = difference_of(known[0], known[1], correlation(first[1:], second[1:]))
    else:
        low, high = percentile_interval(drawn)
        bias = float(np.nanmean(drawn)) - value
        low, high = low - 2 * max(bias, 0.0), high - 2 * min(bias, 0.0)
    return Estimate(value, low, high).each(float)


def _estimates(result: Result) -> dict[str, Estimate[float]]:
    """What a person looks at first, by the names that `replicates` has."""
    rows = by_name(result.summary())
    return {label: Estimate(row.value, row.low, row.high).each(float) for label, row in rows.items()}
