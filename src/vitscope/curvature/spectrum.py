"""What products with the Hessian tell of its eigenvalues: the largest, their sum, how all are distributed.

The largest of a model on one batch, in one call; or by power iteration with deflation, stopped as PyHessian stops it,
to compare with numbers that were made that way:

    v <- v without the eigenvectors found before, scaled to length one;   λ = v . H v;   v <- H v
    until |λ - λ before| / (|λ before| + 1e-6) < tol, or 100 times

A λ that moves little need not be near an eigenvalue: where λ and -λ are both eigenvalues, or nearly, v keeps swinging
between them and λ settles at a wrong number. The residual tells.

The trace by Hutchinson's estimate: for a vector v of random signs, E[v . H v] = Σ_i H_ii.

The density by stochastic Lanczos quadrature: for a random vector v of length one, with H = sum_i λ_i u_i u_i',

    sum_i (v . u_i)^2 δ(t - λ_i)  is about  sum_j s_j0^2 δ(t - θ_j)

where θ_j, s_j are the eigenpairs of the small matrix that m products make of v: the right side has the same first
2m - 1 moments. Over random v the left side's mean is the density of eigenvalues, 1/P sum_i δ(t - λ_i).

Counting the nodes below a threshold x is no unbiased estimate of the share of eigenvalues below it: a node stands for
eigenvalues on both sides. But moments bound the share. Of the rule with the same moments (but for the last) that has
one of its nodes at x (Gauss and Radau's), the weights below x sum to at most that share, and with the weight at x to at
least that share (Chebyshev, Markov and Stieltjes). No bounds from these moments are closer.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.anatomy import Anatomy
from vitscope.core.arguments import Count, NotNegative, checked
from vitscope.curvature.dots import dot, norm
from vitscope.curvature.lanczos import MAX_PRODUCTS, Eigenvalues, OnStep, Operator, krylov_matrix, lanczos
from vitscope.curvature.loss import Convention, Penalty
from vitscope.curvature.product import HessianProduct, hessian_of

ITERATIONS = 100  # of the power method, for each eigenvalue


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
        weight_decay: Factor of the l2 term, as `l2` and `decay_all` define it (see `curvature.loss`).
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
        return lanczos(product, random_start(product, seed), k, tol, max_products, vectors=vectors)


def random_start(product: HessianProduct, seed: int) -> Tensor:
    """A normal random vector to begin a search with."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(product.size, generator=generator, dtype=product.dtype).to(product.device)


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
    errors, stacked = np.array(residuals), torch.stack(found) if vectors else None
    return Eigenvalues(np.array(values), errors, errors <= tol, products, stacked)


@checked
def trace_estimates(product: Operator, like: Tensor, probes: Count, seed: int = 0) -> np.ndarray:
    """(probes,) independent unbiased estimates of the trace of v -> H v, one product each; their mean is the estimate,
    their spread its error. `like` is any vector that H multiplies."""
    vectors = (random_signs(len(like), like, seed + i) for i in range(probes))
    return np.array([dot(v, product(v)) for v in vectors])


@checked
def random_signs(size: Count, like: Tensor, seed: int) -> Tensor:
    """A vector of ±1: for estimates of a trace the best of all random vectors."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randint(2, (size,), generator=generator) - 1).to(like)


@dataclass(frozen=True, eq=False)
class Quadrature:
    """A density as a few points with weights that sum to 1."""

    nodes: np.ndarray
    weights: np.ndarray

    def smoothed(self, grid: np.ndarray, width: float) -> np.ndarray:
        """The density on a grid, each point widened to a normal distribution of this standard deviation."""
        z = (grid[:, None] - self.nodes) / width
        return np.exp(-0.5 * z**2) @ self.weights / (width * np.sqrt(2 * np.pi))

    def below(self, threshold: float) -> tuple[float, float]:
        """The least and the greatest share of the density that can lie below a threshold.

        The points fix so many moments of the density, and every density with these moments keeps to the bounds.
        """
        present = self.weights > 0
        matrix = _tridiagonal(self.nodes[present], self.weights[present])
        if len(matrix) < 2:
            return 0.0, 1.0
        # the last diagonal entry that makes the threshold an eigenvalue (Golub, 1973)
        rest, coupling = matrix[:-1, :-1], matrix[-2, -1]
        last = np.zeros(len(rest))
        last[-1] = coupling**2
        scale = np.abs(self.nodes).max() + abs(threshold)
        for nudge in (0.0, 1e-12 * scale):  # a threshold that is an eigenvalue of the rest has no such entry
            try:
                shift = np.linalg.solve(rest - (threshold + nudge) * np.eye(len(rest)), last)[-1]
                break
            except np.linalg.LinAlgError:
                continue
        matrix[-1, -1] = threshold + nudge + shift
        nodes, vectors = np.linalg.eigh(matrix)
        weights, at = vectors[0] ** 2, int(np.argmin(np.abs(nodes - threshold)))
        low = float(weights[:at].sum())
        return low, min(low + float(weights[at]), 1.0)


@checked
def quadrature(product: Operator, probe: Tensor, steps: Count, on_step: OnStep | None = None) -> Quadrature:
    """One estimate of the density, from one probe (see `random_signs`) and `steps` products."""
    nodes, vectors = np.linalg.eigh(krylov_matrix(product, probe, steps, on_step))
    return Quadrature(nodes, vectors[0] ** 2)


def _tridiagonal(nodes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The matrix that has these eigenvalues, and squares of the first entries of its eigenvectors."""
    matrix, basis = np.zeros((2, len(nodes), len(nodes)))
    basis[0] = np.sqrt(weights / weights.sum())
    for j in range(len(nodes)):
        new = nodes * basis[j]
        matrix[j, j] = basis[j] @ new
        for _ in range(2):  # orthogonal to all of them in spite of rounding
            new = new - basis[: j + 1].T @ (basis[: j + 1] @ new)
        size = float(np.linalg.norm(new))
        if j + 1 == len(nodes) or size <= 1e-13 * np.abs(nodes).max():
            return matrix[: j + 1, : j + 1]
        matrix[j, j + 1] = matrix[j + 1, j] = size
        basis[j + 1] = new / size
    return matrix
