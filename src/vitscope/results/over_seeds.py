"""A number of several trainings of one model, or the difference of two: intervals that hold both images and seeds.

All trainings are examined on the same images. With d_s the number (or difference) of training seed s out of S, and

    d_si = mean + seed_s + image_i + (seed x image)_si

the mean over seeds and images errs by the variance

    var(seed)/S + var(image)/n + var(seed x image)/(S n)

The spread of the d_s holds the first and the last term, the bootstrap over images the last two, so that the last one
would count twice. It is known from the replicates (d_s^r, with the same images for all seeds): it is the spread over r
of what a seed's replicate has beyond the mean of all seeds'. With

    A = var_s(d_s)/S,     B = image error² - (seed x image)²/S,     half² = t² A + z² B, and at least z² image error²

where t is Student's quantile for S - 1 degrees of freedom and z the normal one. It is exact where one of the two
errors is all there is, and in between the interval covers the truth a little more often than it says, with two seeds
as well. (One Student's t with Satterthwaite's degrees of freedom does not: with two seeds it covers 88 % at worst.)

The image error is that of the results' own intervals, which know of few images, of shares near 0 and 1 and of errors
that noise raises, made smaller by as much as averaging over seeds makes the spread of the replicates smaller. Without
replicates it is not made smaller, and counts twice what it may.

The p value for a bound is the level at which the interval just reaches it: p < 0.05 if the 95 % interval leaves it out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vitscope.core.bootstrap import standard_error
from vitscope.core.statistics import NORMAL, Estimate
from vitscope.results.paired import difference_of_replicates

_LEAST_P = 1e-12


@dataclass(frozen=True, eq=False)
class Measured:
    """A number of one training with its 95 % interval over images; NaN ends where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0  # images; 0: of none
    drawn: np.ndarray | None = None  # (1 + replicates,): the value, then what each bootstrap replicate gives

    @property
    def half(self) -> float:
        """Half the width of the interval; 0 without one. Of one that was cut off at 0 the other side tells."""
        if math.isnan(self.high - self.low):
            return 0.0
        if self.low == 0.0 < self.value:
            return self.high - self.value
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class OverSeeds:
    """The mean over trainings: value and 95 % interval, and what the interval is made of."""

    value: float
    low: float
    high: float
    seeds: int
    n: int  # images
    seed_error: float  # standard error by the spread of the seeds; NaN of one training
    image_error: float  # by the images
    rest_error: float  # by what images do to all seeds alike, which their spread does not hold

    def p_value(self, bound: float) -> float:
        """How often chance alone would lead at least as far away from `bound`, to either side."""
        away = abs(self.value - bound)
        if math.isnan(self.value) or math.isnan(self.low):
            return math.nan
        if self.seeds == 1:
            side = self.value - self.low if bound < self.value else self.high - self.value
            if side <= 0 or (self.low == 0.0 and bound < self.value):  # no reach to this side, or cut off
                side = NORMAL * self.image_error
            return _two_sided(NORMAL * away / side) if side > 0 else float(away == 0)
        if self.seed_error == self.image_error == 0:
            return float(away == 0)
        least, most = math.log(_LEAST_P), 0.0
        if self.reach(_LEAST_P) < away:
            return _LEAST_P
        for _ in range(50):
            middle = (least + most) / 2
            least, most = (middle, most) if self.reach(math.exp(middle)) > away else (least, middle)
        return math.exp(most)

    def reach(self, level: float) -> float:
        """Half the width of the interval of several trainings that leaves out `level`; 0.05: of the 95 % one."""
        from scipy.special import ndtri, stdtrit

        t, z = stdtrit(self.seeds - 1, level / 2), ndtri(level / 2)
        return max(math.hypot(t * self.seed_error, z * self.rest_error), abs(z) * self.image_error)


def over_seeds(measured: Sequence[Measured]) -> OverSeeds:
    """The mean of one number over trainings that differ in their seed; of a single one its own interval."""
    values = np.array([one.value for one in measured])
    n = min(one.n for one in measured)
    if len(measured) == 1:
        (one,) = measured
        error = one.half / NORMAL
        return OverSeeds(one.value, one.low, one.high, 1, n, math.nan, error, error)
    count, value = len(values), float(values.mean())
    images, shared = _image_variance(measured)
    found = OverSeeds(
        value,
        value,
        value,
        count,
        n,
        seed_error=math.sqrt(float(values.var(ddof=1)) / count),
        image_error=math.sqrt(images),
        rest_error=math.sqrt(max(images - shared / count, 0.0)),
    )
    half = found.reach(0.05)
    return replace(found, low=value - half, high=value + half)


def difference(quantity: str, first: Measured, second: Measured) -> Measured:
    """`first` minus `second` of one training seed: paired by image where both have replicates of the same images."""
    value, n = first.value - second.value, min(first.n, second.n)
    if first.drawn is not None and second.drawn is not None and first.n == second.n:
        ends = [Estimate(one.value, one.low, one.high) for one in (first, second)]
        known = [end for end in ends if not math.isnan(end.low)]
        value, low, high = difference_of_replicates(quantity, first.drawn, second.drawn, n, known)
        return Measured(value, low, high, n, first.drawn - second.drawn)
    if math.isnan(first.low) and math.isnan(second.low):
        return Measured(value, n=n)
    half = math.hypot(first.half, second.half)
    return Measured(value, value - half, value + half, n)


def holm(p_values: Sequence[float], planned: int | None = None) -> list[float]:
    """Holm's correction: p values as large as they have to be for all tests of a study together.

    The smallest of m is multiplied by m, the next by m - 1 ..., and none is smaller than the one before. Then the
    chance that any test of something that is not there is below 0.05 is at most 5 %, however tests hang together. What
    is NaN was no test; if it was `planned` to be one, it counts.
    """
    known = [(p, place) for place, p in enumerate(p_values) if not math.isnan(p)]
    adjusted, largest = [math.nan] * len(p_values), 0.0
    tests = max(len(known), planned or 0)
    for rank, (p, place) in enumerate(sorted(known)):
        largest = max(largest, min(1.0, (tests - rank) * p))
        adjusted[place] = largest
    return adjusted


def _image_variance(measured: Sequence[Measured]) -> tuple[float, float]:
    """Of the mean over seeds by its images, and of one seed by what images do to it alone (0 if that is not known)."""
    error = float(np.mean([one.half for one in measured])) / NORMAL
    drawn = [one.drawn for one in measured if one.drawn is not None]
    if len(drawn) < len(measured) or len({len(one) for one in drawn}) > 1:
        return error**2, 0.0
    replicates = np.stack(drawn, axis=1)[1:]
    known = replicates[np.isfinite(replicates).all(1)]
    single = float(standard_error(known).mean()) if len(known) > 1 else 0.0
    if single == 0.0:
        return error**2, 0.0
    mean = known.mean(1, keepdims=True)
    scale = error / single
    alone = float(np.square(standard_error(known - mean)).sum()) / (len(measured) - 1)
    return (scale * float(standard_error(mean)[0])) ** 2, scale**2 * alone


def _two_sided(z: float) -> float:
    return math.erfc(z / math.sqrt(2))
