"""The two numbers that sum a spectrum up, and how far they would move had other batches been drawn.

NEP = share of the negative values,        APE = mean of the positive ones
"""

from collections.abc import Callable
from typing import Literal

import numpy as np

from vitscope.exams.bootstrap import REPLICATES, percentile_interval, poisson_weights

Quantity = Literal["nep", "ape"]


def negative_proportion(eigenvalues: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(R,) NEP of eigenvalues (batches, k), for each column of batch weights (batches, R)."""
    negative = (eigenvalues < 0).sum(1)
    with np.errstate(invalid="ignore"):
        return (negative @ weights) / (eigenvalues.shape[1] * weights.sum(0))


def average_positive(eigenvalues: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(R,) APE of eigenvalues (batches, k), for each column of batch weights (batches, R); NaN if none is positive."""
    positive = eigenvalues > 0
    with np.errstate(invalid="ignore"):
        return (np.where(positive, eigenvalues, 0.0).sum(1) @ weights) / (positive.sum(1) @ weights)


STATISTICS: dict[Quantity, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "nep": negative_proportion,
    "ape": average_positive,
}


def replicates(eigenvalues: np.ndarray, quantity: Quantity, seed: int, count: int = REPLICATES) -> np.ndarray:
    """(1 + count,) the quantity, and what it is with batches drawn anew from those there are."""
    return STATISTICS[quantity](eigenvalues, poisson_weights(np.arange(len(eigenvalues)), seed, count))


def summed_up(eigenvalues: np.ndarray, seed: int) -> dict[str, float]:
    """NEP and APE with `_low` and `_high`; NaN for a single batch."""
    found: dict[str, float] = {}
    for quantity in STATISTICS:
        value, *others = replicates(eigenvalues, quantity, seed)
        known = len(eigenvalues) > 1 and bool(np.isfinite(others).any())
        low, high = percentile_interval(np.array(others)) if known else (np.nan, np.nan)
        found |= {quantity: float(value), f"{quantity}_low": float(low), f"{quantity}_high": float(high)}
    return found
