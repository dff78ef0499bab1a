"""95 % intervals of means, of shares, of differences, from sums or from standard errors alone.

Shares and means of scores between 0 and 1 have Wilson's interval: it is never empty and never leaves [0, 1], and covers
the truth near 0 and 1 too, where a mean plus or minus its error (or a bootstrap) does not. Differences of two scores of
the same images have that of Agresti and Min, for the same reasons.
"""

import functools
import math
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


class HasEstimate(Generic[Number]):
    """What rests on one estimate: its parts are reached by their own names, too."""

    estimate: Estimate[Number]

    @property
    def value(self) -> Number:
        """The number."""
        return self.estimate.value

    @property
    def low(self) -> Number:
        """The lower end of its 95 % interval."""
        return self.estimate.low

    @property
    def high(self) -> Number:
        """The upper end."""
        return self.estimate.high


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


def histogram_percentile(
    histogram: np.ndarray, cumulative_squares: np.ndarray, n: int, end: float, share: float
) -> Estimate[float]:
    """A percentile of numbers in [0, end] from their histogram, and its 95 % interval over images.

    The interval turns that of the share below the percentile, over images, back into values (Woodruff): the
    queries of an image are not independent, images are. It ends where the histogram does.
    """
    edges = np.linspace(0.0, end, len(histogram) + 1)
    below = np.append(0.0, histogram.cumsum() / n)
    value = float(np.interp(share, below, edges))
    if n < 2:
        return Estimate(value, math.nan, math.nan)
    spread = np.append(0.0, np.maximum(cumulative_squares - n * below[1:] ** 2, 0.0) / (n - 1))
    reach = student(n - 1) * math.sqrt(float(np.interp(value, edges, spread)) / n)
    seen = np.flatnonzero(histogram)
    ends = np.interp([share - reach, share + reach], below, edges)
    low, high = np.clip(ends, edges[seen[0]], edges[seen[-1] + 1])
    return Estimate(value, float(low), float(high))
