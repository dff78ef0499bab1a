"""How all eigenvalues are distributed, by stochastic Lanczos quadrature.

For a random vector v of length one, with H = sum_i λ_i u_i u_i',

    sum_i (v . u_i)^2 δ(t - λ_i)  is about  sum_j s_j0^2 δ(t - θ_j)

where θ_j, s_j are the eigenpairs of the small matrix that m products make of v: the right side has the same first
2m - 1 moments. Over random v the left side's mean is the density of eigenvalues, 1/P sum_i δ(t - λ_i).

Counting the nodes below a threshold x is no unbiased estimate of the share of eigenvalues below it: a node stands for
eigenvalues on both sides. But moments bound the share. Of the rule with the same moments (but for the last) that has
one of its nodes at x (Gauss and Radau's), the weights below x sum to at most that share, and with the weight at x to at
least that share (Chebyshev, Markov and Stieltjes). No bounds from these moments are closer.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vitscope.core.arguments import Count, checked
from vitscope.curvature.lanczos import OnStep, Operator, krylov_matrix


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
        """Bounds of the weight that the density has below a threshold, whatever it is between the points."""
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


@checked
def random_signs(size: Count, like: Tensor, seed: int) -> Tensor:
    """A vector of ±1: for estimates of a trace the best of all random vectors."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randint(2, (size,), generator=generator) - 1).to(like)


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
