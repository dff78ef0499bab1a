"""Power iteration with deflation, stopped as PyHessian stops it: to compare with numbers that were made that way.

    v <- v without the eigenvectors found before, scaled to length one;   λ = v . H v;   v <- H v
    until |λ - λ before| / (|λ before| + 1e-6) < tol, or 100 times

A λ that moves little need not be near an eigenvalue: where λ and -λ are both eigenvalues, or nearly, v keeps swinging
between them and λ settles at a wrong number. The residual tells.
"""

import math

import numpy as np
import torch
from torch import Tensor

from vitscope.core.arguments import Count, NotNegative, checked
from vitscope.curvature.dots import dot, norm
from vitscope.curvature.lanczos import Eigenvalues, OnStep, Operator

ITERATIONS = 100


@checked
def power(
    product: Operator,
    like: Tensor,
    k: Count,
    tol: NotNegative = 1e-3,
    seed: int = 0,
    iterations: Count = ITERATIONS,
    vectors: bool = False,
    on_step: OnStep | None = None,
) -> Eigenvalues:
    """`k` numbers in the order in which they are found; `converged` is about the residual, not the stopping rule.

    Args:
        product: v -> H v.
        like: Any vector that H multiplies; gives length, type and device.
        k: How many.
        tol: Of the change of λ, and of the residual ||H v - λ v|| / |λ| that counts as converged.
        seed: Of the vectors the search starts from.
        iterations: At most so many for each.
        vectors: Whether to return the vectors.
        on_step: Called with the number of products after each.
    """
    generator = torch.Generator().manual_seed(seed)
    found: list[Tensor] = []
    values, residuals, products = [], [], 0
    for _ in range(k):
        v = torch.randn(len(like), generator=generator, dtype=like.dtype).to(like.device)
        before, value, residual, kept = None, math.nan, math.inf, v
        for _ in range(iterations):
            for other in found:
                v.sub_(other, alpha=dot(other, v))
            kept = v.div_(norm(v))
            v = product(kept)
            products += 1
            if on_step is not None:
                on_step(products)
            value = dot(kept, v)
            residual = norm(v - value * kept)
            if before is not None and abs(before - value) / (abs(before) + 1e-6) < tol:
                break
            before = value
        found.append(kept)
        values.append(value)
        residuals.append(residual / abs(value) if value else residual)
    everything = np.array(residuals)
    stacked = torch.stack(found) if vectors else None
    return Eigenvalues(np.array(values), everything, everything <= tol, products, stacked)
