"""A bootstrap over images that sees each image once and does not depend on how images are shared out.

Resampling n images with replacement gives each one a Binomial(n, 1/n) weight, about Poisson(1). Here the
weight of image i in replicate r is a Poisson(1) number made by hashing (seed, i, r): nothing has to be kept
per image, and batches, order and processes do not matter.
"""

import math
import warnings

import numpy as np

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
