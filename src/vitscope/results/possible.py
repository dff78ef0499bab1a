"""What a quantity of one model can be at all, by its name: an interval ends there, too.

An interval that is cut off at what is possible holds the truth as often as before, since the truth is possible. That
of a mean of few batches, or of two seeds, is symmetric and else reaches below 0.
"""

import math
from typing import Any

import numpy as np

from vitscope.core.statistics import Estimate
from vitscope.results.numbers import lies_in_0_to_1

# Quantities that cannot be negative, and have no largest value (or none that is the same for all models).
NOT_NEGATIVE = frozenset(
    "nll loss train_loss scaled_nll brier scaled_brier temperature l2 ape "
    "entropy class_entropy entropy_bound aleatoric epistemic data_std model_std variance distance distance_patches "
    "norm norm_p5 norm_p50 norm_p95 norm_p99 peak contrast sink effective_rank rank_bound gradient "
    "boxes_per_image objects_per_image throughput seconds images_per_second parameters flops".split()
) | {"centre nll", "centre l2", "centre loss"}


def possible_range(quantity: str) -> tuple[float, float]:
    """The least and the most that it can be."""
    if lies_in_0_to_1(quantity):
        return 0.0, 1.0
    return (0.0 if quantity in NOT_NEGATIVE else -math.inf), math.inf


def within_possible(quantity: str, found: Estimate[Any]) -> Estimate[Any]:
    """The estimate, whose interval does not reach over what is possible; it still holds the value, as it is."""
    least, most = possible_range(quantity)
    value, low, high = found
    return Estimate(
        value, np.maximum(low, np.minimum(least, value)), np.minimum(high, np.maximum(most, value))
    )
