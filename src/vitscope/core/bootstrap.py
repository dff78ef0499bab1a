"""A bootstrap over images that sees each image once and does not depend on how images are shared out.

Resampling n images with replacement gives each one a Binomial(n, 1/n) weight, about Poisson(1). Here the
weight of image i in replicate r is a Poisson(1) number made by hashing (seed, i, r): nothing has to be kept
per image, and batches, order and processes do not matter.
"""

import math
import warnings

import numpy as np

from vitscope.core.statistics import student

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
