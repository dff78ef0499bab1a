"""Symmetric matrices whose eigenvalues are known."""

import numpy as np
import torch
from torch import Tensor

BULK = list(np.linspace(-5.0, 5.0, 295))
PAIRED = [50.0, -49.5, 20.0, 19.0, 18.0, *BULK]  # where a power iteration swings
CLUSTERED = [50.0, 49.9, 49.8, -49.9, 48.0, *np.linspace(-1, 1, 300)]
COPIES = [10.0, 10.0, 10.0, 5.0, 5.0, *[1.0] * 195]


def matrix(eigenvalues: list[float], dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    n = len(eigenvalues)
    turn = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64)).Q
    return (turn @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ turn.T).to(dtype)


def vector(size: int, dtype: torch.dtype = torch.float64, seed: int = 1) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def by_magnitude(eigenvalues: list[float], k: int) -> np.ndarray:
    return np.array(sorted(eigenvalues, key=lambda value: -abs(value))[:k])


def true_residuals(matrix: Tensor, values: np.ndarray, vectors: Tensor) -> np.ndarray:
    v = vectors.double()
    left = v @ matrix.double() - torch.from_numpy(values)[:, None] * v
    return (left.norm(dim=1) / v.norm(dim=1)).numpy() / np.abs(values)
