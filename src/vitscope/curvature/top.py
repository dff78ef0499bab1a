"""Eigenvalues of the Hessian of a model on one batch of images, in one call.

The trace by Hutchinson's estimate: for a vector v of random signs, E[v . H v] = Σ_i H_ii.
"""

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.anatomy import Anatomy
from vitscope.core.arguments import Count, NotNegative, checked
from vitscope.curvature.density import random_signs
from vitscope.curvature.dots import dot
from vitscope.curvature.lanczos import MAX_PRODUCTS, Eigenvalues, Operator, lanczos
from vitscope.curvature.penalty import Convention, Penalty
from vitscope.curvature.product import hessian_of


@checked
def top_eigenvalues(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    k: Count = 1,
    tol: NotNegative = 1e-2,
    weight_decay: NotNegative = 0.0,
    params: str | None = None,
    max_products: Count = MAX_PRODUCTS,
    l2: Convention = "half_square",
    decay_all: bool = False,
    parts: Anatomy | None = None,
    seed: int = 0,
    vectors: bool = False,
) -> Eigenvalues:
    """The `k` eigenvalues of largest magnitude of the Hessian of NLL + l2 on one batch, with their signs.

    The model is in evaluation mode inside and left as it was found: modes, requires_grad, gradients, random state,
    attention backend.

    Args:
        model: Any classifier without random draws in evaluation mode.
        images: (N, C, H, W), as the model takes them, on its device.
        targets: (N,) labels or (N, classes) probabilities.
        k: How many.
        tol: Wanted residual ||H v - λ v|| / |λ|.
        weight_decay: Factor of the l2 term, as `l2` and `decay_all` define it (see `curvature.penalty`).
        params: Over these parameters only: "layer4", "blocks.*.attn", "kind:msa" (needs `parts`).
        max_products: Stop after so many products even if not converged.
        l2: "half_square" or "norm".
        decay_all: Whether the l2 term covers biases and norms too.
        parts: The model's anatomy.
        seed: Of the start vector.
        vectors: Whether to return eigenvectors too; `hessian_of(...).named` cuts one into parameters.
    """
    penalty = Penalty(weight_decay, l2, decay_all)
    with hessian_of(model, images, targets, params=params, penalty=penalty, parts=parts) as product:
        generator = torch.Generator().manual_seed(seed)
        start = torch.randn(product.size, generator=generator, dtype=product.dtype).to(product.device)
        return lanczos(product, start, k, tol, max_products, vectors=vectors)


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
