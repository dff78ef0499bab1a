"""How all eigenvalues are distributed, by stochastic Lanczos quadrature.

For a random vector v of length one, with H = sum_i λ_i u_i u_i',

    sum_i (v . u_i)^2 δ(t - λ_i)  is about  sum_j s_j0^2 δ(t - θ_j)

where θ_j, s_j are the eigenpairs of the small matrix that m products make of v: the right side has the same first
2m - 1 moments. Over random v the left side's mean is the density of eigenvalues, 1/P sum_i δ(t - λ_i).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

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


def quadrature(product: Operator, probe: Tensor, steps: int, on_step: OnStep | None = None) -> Quadrature:
    """One estimate of the density, from one probe (see `random_signs`) and `steps` products."""
    nodes, vectors = np.linalg.eigh(krylov_matrix(product, probe, steps, on_step))
    return Quadrature(nodes, vectors[0] ** 2)


def random_signs(size: int, like: Tensor, seed: int) -> Tensor:
    """A vector of ±1: for estimates of a trace the best of all random vectors."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randint(2, (size,), generator=generator) - 1).to(like)
