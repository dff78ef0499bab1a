"""The bootstrap over images, and 95 % intervals from its replicates; `core/statistics.py` has those without replicates.

Each image is seen once. Resampling n images with replacement gives each one a Binomial(n, 1/n) weight, about
Poisson(1). Here the weight of image i in replicate r is a Poisson(1) number made by hashing (seed, i, r): nothing has
to be kept per image, and batches, order and processes do not matter.
"""

import math
import warnings
from typing import Any

import numpy as np

from vitscope.core.statistics import NORMAL, Ends, score_interval, student

REPLICATES = 1000
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_CUMULATIVE = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(18)])


def poisson_weights(indices: np.ndarray, seed: int, replicates: int = REPLICATES) -> np.ndarray:
    """(N, 1 + replicates) weights of the images at `indices`; the first column is 1: the plain sum."""
    start = _mix(np.array([seed % 2**64], dtype=np.uint64) + _GOLDEN)
    per_image = _mix(start + indices.astype(np.uint64) * _GOLDEN)
    bits = _mix(per_image[:, None] + np.arange(1, replicates + 1, dtype=np.uint64) * _GOLDEN)
    uniform = (bits >> np.uint64(11)) * 2.0**-53
    weights = np.ones((len(indices), 1 + replicates))
    weights[:, 1:] = np.searchsorted(_CUMULATIVE, uniform, side="right")
    return weights


def of_few(error: Any, n: int) -> Any:
    """A bootstrap's standard error over few (`n`) independent units, as large as an interval has to take it.

    A bootstrap divides by n where n - 1 is right, and an error that is itself uncertain calls for Student's quantile
    instead of the normal one. It is NaN for fewer than two units.
    """
    return np.asarray(error) * (student(n - 1) / NORMAL * np.sqrt(n / (n - 1)) if n > 1 else np.nan)


def few_interval(value: Any, error: Any, n: int) -> Ends:
    """Student's interval around `value` for a bootstrap's standard error over few (`n`) independent units."""
    half = NORMAL * of_few(error, n)
    return value - half, value + half


def percentile_interval(replicates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The middle 95 % of the replicates (first axis)."""
    low, high = np.nanquantile(replicates, [0.025, 0.975], axis=0)
    return low, high


def mean_interval_of_few(replicates: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % interval of means over `n` images from their replicates (first axis), also where images are few.

    The middle 95 % of the replicates is too narrow for few images, and for lopsided numbers such as losses it lies too
    low. Its ends are moved out by what separates Student's quantile from the normal one, and to the side by the
    skewness of the replicates (Efron's accelerated bootstrap; of a mean, bias and acceleration are both a sixth of
    it).
    """
    if n < 2:
        return percentile_interval(replicates)
    reach = student(n - 1) * math.sqrt(n / (n - 1))
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.filterwarnings("ignore", message="Mean of empty slice")
        centred = replicates - np.nanmean(replicates, axis=0)
        skewness = np.nanmean(centred**3, axis=0) / np.nanmean(centred**2, axis=0) ** 1.5
    lean = np.nan_to_num(skewness) / 6
    columns = replicates.reshape(len(replicates), -1).T
    ends = [
        [np.nanquantile(column, _level(z, a)) for column, a in zip(columns, lean.flat, strict=True)]
        for z in (-reach, reach)
    ]
    low, high = np.reshape(ends, (2, *replicates.shape[1:]))
    return low, high


def known_intervals(drawn: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Of (1 + replicates, ...): between the ends of `mean_interval_of_few`; NaN where there is no number."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="All-NaN slice")
        low, high = mean_interval_of_few(drawn[1:], n)
    unknown = np.isnan(drawn[0])
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def biased_intervals(drawn: np.ndarray, n: Any, most: Any = 1.0) -> Ends:
    """95 % intervals of numbers from 0 to `most` that are no means over images, such as AP and mIoU.

    Of two limits on each side the outer one is kept. One is that of `known_intervals`, which on the side that the bias
    of the replicates leads away from reaches further by twice as much: a class that few images show is drawn too often
    or not at all. The other is `score_interval` with one image more, half of it at either end: replicates that agree,
    because nothing or everything was found, are no certainty. Simulated coverage: docs/exams/detection.md.

    Args:
        drawn: (1 + replicates, ...), the number itself first.
        n: Images that say something of each number, such as those with objects of a class.
        most: Infinite for numbers that have no end: these have the first limit alone.
    """
    value, most = drawn[0], np.broadcast_to(most, drawn.shape[1:])
    images = np.broadcast_to(n, drawn.shape[1:])
    low, high, error = (np.full(drawn.shape[1:], np.nan) for _ in range(3))
    for one in np.unique(images):
        own = images == one
        low[own], high[own] = known_intervals(drawn[:, own], int(one))
        error[own] = of_few(standard_error(drawn[1:, own]), int(one)) if one > 1 else 0.0
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.filterwarnings("ignore", message="Mean of empty slice")
        bias = np.nanmean(drawn[1:], axis=0) - value
        ends = score_interval(value / most, error / most, images, added=1.0)
        least, largest = (np.where(np.isinf(most), np.nan, end * most) for end in ends)
    low, high = low - 2 * np.maximum(bias, 0.0), high - 2 * np.minimum(bias, 0.0)
    for end in (least, value):
        low = np.fmin(low, end)
    for end in (largest, value):
        high = np.fmax(high, end)
    return np.maximum(low, 0.0), np.minimum(high, most)


def images_behind(count: np.ndarray) -> np.ndarray:
    """How many images that have about as much of something would make its count vary as much as replicates do.

    An image is drawn with a variance of 1 (`poisson_weights`), so that of the count is the sum of the squares of what
    the images have: (sum c)² / sum c² is 1 where one image has nearly all, and n where n have as much as each other.

    Args:
        count: (1 + replicates, ...), the count itself first.
    """
    squares = np.square(count[1:] - count[0]).mean(0)
    found = np.rint(np.divide(np.square(count[0]), squares, out=np.ones_like(squares), where=squares > 0))
    return np.where(count[0] > 0, np.maximum(found, 1), 0).astype(np.int64)


def _level(z: float, lean: float) -> float:
    """The share of replicates below the end of the interval that a normal quantile `z` stands for."""
    moved = lean + (lean + z) / max(1 - lean * (lean + z), 0.1)
    return 0.5 * math.erfc(-moved / math.sqrt(2))


def standard_error(replicates: np.ndarray) -> np.ndarray:
    """The standard deviation of the replicates (first axis); of 0 images there is none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Degrees of freedom <= 0")
        found: np.ndarray = np.nanstd(replicates, axis=0)
    return found


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Of the replicates of two numbers over the same images; 0 where one of them does not vary."""
    known = np.isfinite(first) & np.isfinite(second)
    if known.sum() < 2 or not first[known].std() or not second[known].std():
        return 0.0
    return float(np.corrcoef(first[known], second[known])[0, 1])


def _mix(x: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit numbers that spreads every bit over all others (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
