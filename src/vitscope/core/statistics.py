"""95 % intervals, all of them: of means, of shares, of differences, from sums or from standard errors alone.

Shares and means of scores between 0 and 1 have Wilson's interval: it is never empty and never leaves [0, 1], and covers
the truth near 0 and 1 too, where a mean plus or minus its error (or a bootstrap) does not. Differences of two scores of
the same images have that of Agresti and Min, for the same reasons.

The bootstrap over images sees each image once. Resampling n images with replacement gives each one a Binomial(n, 1/n)
weight, about Poisson(1). Here the weight of image i in replicate r is a Poisson(1) number made by hashing (seed, i, r):
nothing has to be kept per image, and batches, order and processes do not matter.
"""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

NORMAL = 1.959963984540054

Ends = tuple[np.ndarray, np.ndarray]
Number = TypeVar("Number")


class Estimate(NamedTuple, Generic[Number]):
    """A number with the ends of its 95 % interval, or arrays of them; ends that are not known are NaN.

    `value, low, high = estimate` takes it apart.
    """

    value: Number
    low: Number
    high: Number

    def each(self, change: Callable[[Any], Any]) -> "Estimate[Any]":
        """The same done to the number and to both ends: a scale, a shift, another type."""
        return Estimate(*map(change, self))

    def scaled(self, factor: float) -> "Estimate[Any]":
        """So many times as much: 100 for per cent."""
        return self.each(lambda number: factor * number)

    def bounded(self, least: Any = 0.0, most: Any = 1.0) -> "Estimate[Any]":
        """Inside the range of such numbers: ends that reach over it, and what rounding puts beside it."""
        return self.each(lambda number: np.clip(number, least, most))

    def at(self, place: Any) -> "Estimate[Any]":
        """The entries of the arrays at a place, given as numpy takes it."""
        return Estimate(*(np.asarray(numbers)[place] for numbers in self))


def without_interval(value: np.ndarray) -> Estimate[np.ndarray]:
    """Numbers that have none."""
    return Estimate(value, np.full_like(value, np.nan), np.full_like(value, np.nan))


@functools.cache
def student(degrees: int) -> float:
    """The 97.5 % quantile of Student's t."""
    from scipy.special import stdtrit  # takes a fifth of the time that pandas does; most pages need none

    return float(stdtrit(degrees, 0.975))


def mean_interval(total: np.ndarray, squares: np.ndarray, n: int) -> Estimate[np.ndarray]:
    """Mean and its 95 % interval from the sum and the sum of squares over `n` independent images.

    The interval is NaN for fewer than two images.
    """
    mean = total / n
    if n < 2:
        return without_interval(mean)
    deviation = np.sqrt(np.maximum(squares - n * mean**2, 0.0) / (n - 1))
    half = student(n - 1) * deviation / np.sqrt(n)
    return Estimate(mean, mean - half, mean + half)


def share_interval(count: Any, n: Any) -> Ends:
    """Wilson's interval of shares count / n; NaN where n is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share, z2 = np.asarray(count) / np.asarray(n), NORMAL**2 / np.asarray(n)
        centre = (share + z2 / 2) / (1 + z2)
        half = np.sqrt(z2 * (share * (1 - share) + z2 / 4)) / (1 + z2)
        low, high = np.minimum(centre - half, share), np.maximum(centre + half, share)  # against rounding
        return np.clip(low, 0, 1), np.clip(high, 0, 1)


def score_interval(mean: Any, error: Any, n: Any, added: float = NORMAL**2) -> Ends:
    """Wilson's interval of a mean of `n` independent scores between 0 and 1, given its standard error.

    It is that of as many yes-or-no answers as would have this error. The error is that of the scores and of `added`
    more, half of them at 0 and half at 1, so that `n` equal scores do not pass for certainty; with two at each end
    (z²/2) it is Wilson's interval itself for answers of yes or no.
    """
    mean = np.asarray(mean, dtype=np.float64)
    middle = (n * mean + added / 2) / (n + added)
    squares = n * (n * np.square(error) + mean**2)
    variance = (squares + added / 2) / (n + added) - middle**2
    effective = n * middle * (1 - middle) / variance
    return share_interval(mean * effective, effective)


def ratio_interval(sums: np.ndarray) -> Estimate[np.ndarray]:
    """A mean over things of which every image has a number of its own, sum y / sum x over images, and its interval.

    Args:
        sums: (..., 6), sums over images of y (itself the sum over the image's things), of their number x, of y², x y
            and x², and the number of images that have any. The mean is NaN where there is none, its interval where
            there are fewer than two.
    """
    y, x, yy, xy, xx, n = np.moveaxis(np.asarray(sums, dtype=np.float64), -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = y / x
        residual = np.maximum(yy - 2 * value * xy + value**2 * xx, 0.0)
        error = np.where(n > 1, np.sqrt(residual * n / (n - 1)) / x, np.nan)
    reach = np.vectorize(lambda images: student(max(int(images) - 1, 1)), otypes=[float])(n)
    return Estimate(value, value - reach * error, value + reach * error)


def mean_share_interval(shares: np.ndarray, answers: float) -> Ends:
    """Interval of the mean of a few independent shares (first axis), NaN for fewer than two of them.

    Each is known to vary like a share of `answers` yes-or-no answers does, or more. Shares that happen to agree do not
    pass for certainty then, and one that is small because the draw is does not take its error for small as well.
    Where the mean p is made of less than one yes, that many answers are counted for all shares together.

    Two limits are taken on each side, and the outer one kept: Wilson's, with an error that grows like sqrt(p(1-p)), and
    that of an error that grows like p(1-p), as that of skewed shares does, whose spread is a multiple of their mean.
    The spread is divided by n - 1 instead of n: with Student's quantile alone, few shares that are not normal are
    covered too rarely. What no interval of few shares knows is that none of them is of a kind that there is.
    """
    n, mean = len(shares), shares.mean(0)
    if n < 2:
        return np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    reach, count = student(n - 1) * shares.std(0, ddof=1) / math.sqrt(n - 1), n * answers
    with np.errstate(invalid="ignore", divide="ignore"):
        seen = mean * (1 - mean) * (NORMAL / reach) ** 2
    one_kind = np.minimum(mean, 1 - mean) * count < 1
    effective = np.fmin(seen, np.where(one_kind, answers, count))
    low, high = share_interval(mean * effective, effective)
    centre = (mean * count + 0.5) / (count + 1)
    # |p - centre| = times p (1 - p), without the division by `times` of the textbook's root
    times = reach / (centre * (1 - centre))
    least = 2 * centre / (1 + times + np.sqrt((1 + times) ** 2 - 4 * times * centre))
    most = 2 * (1 - centre) / (1 + times + np.sqrt((1 + times) ** 2 - 4 * times * (1 - centre)))
    return np.minimum(low, least), np.maximum(high, 1 - most)


def paired_interval(total: Any, squares: Any, n: int) -> Ends:
    """Agresti and Min's interval of a mean of differences in [-1, 1] over `n` images, from sum and sum of squares.

    Half an image is added to each of the four cases (both right, only one, neither).
    """
    mean = np.asarray(total) / (n + 2)
    variance = (np.asarray(squares) + 1) / (n + 2) - mean**2
    half = NORMAL * np.sqrt(variance / (n + 2))
    return np.clip(mean - half, -1.0, 1.0), np.clip(mean + half, -1.0, 1.0)


def difference_interval(mean: Any, error: Any, n: int) -> Ends:
    """`paired_interval`, given the mean over `n` images and its standard error."""
    mean = np.asarray(mean, dtype=np.float64)
    return paired_interval(n * mean, n * (n * np.square(error) + mean**2), n)


def difference_of(first: Estimate[Any], second: Estimate[Any], correlation: Any = 0.0) -> Ends:
    """Interval of a difference, from both and the correlation of their errors (Zou and Donner).

    Unlike a bootstrap of the difference it carries over what single intervals know of a bias.
    """
    (a, a_low, a_high), (b, b_low, b_high) = first, second

    def together(x: Any, y: Any) -> Any:
        return np.sqrt(np.maximum(x**2 + y**2 - 2 * correlation * x * y, 0.0))

    return a - b - together(a - a_low, b_high - b), a - b + together(a_high - a, b - b_low)


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
