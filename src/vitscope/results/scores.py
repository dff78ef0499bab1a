"""Names of scores, and scores under conditions."""

from dataclasses import dataclass

import numpy as np

from vitscope.core.bootstrap import standard_error
from vitscope.core.statistics import difference_interval

BINS = 15


MEANS = ("accuracy", "top5", "nll", "brier", "confidence")


QUANTITIES = (*MEANS, "ece")


@dataclass(frozen=True)
class ConditionTable:
    """Scores by condition; arrays are (conditions, quantities) in the order of `QUANTITIES`.

    `drop` is what accuracy loses against the reference condition on the same images, (conditions,).
    """

    n: int
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    drop: np.ndarray
    drop_low: np.ndarray
    drop_high: np.ndarray


def drop_interval(drops: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Of what accuracy loses on the same images, from (conditions, 1 + replicates)."""
    return difference_interval(drops[:, 0], standard_error(drops[:, 1:].T), n)
