"""The trace by Hutchinson's estimate: for a vector v of random signs, E[v . H v] = Σ_i H_ii."""

import numpy as np
from torch import Tensor

from vitscope.core.arguments import Count, checked
from vitscope.curvature.density import random_signs
from vitscope.curvature.dots import dot
from vitscope.curvature.lanczos import Operator


@checked
def trace_estimates(product: Operator, like: Tensor, probes: Count, seed: int = 0) -> np.ndarray:
    """(probes,) independent unbiased estimates of the trace; their mean is the estimate, their spread its error.

    Args:
        product: v -> H v.
        like: Any vector that H multiplies; gives length, type and device.
        probes: How many random vectors, one product each.
        seed: Of the vectors.
    """
    vectors = (random_signs(len(like), like, seed + i) for i in range(probes))
    return np.array([dot(v, product(v)) for v in vectors])
