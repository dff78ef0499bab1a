"""Products of long vectors that do not lose digits: float32 inside pieces of 2^18 entries, float64 across them.

A plain float32 dot product of ten million entries is off by 1e-4 to 1e-3, which alone would limit every residual.
Turning the vectors into float64 first would cost many times as much.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

PIECE = 1 << 18


def pieces(length: int) -> Iterator[slice]:
    """The consecutive pieces of a vector of `length` entries."""
    for start in range(0, length, PIECE):
        yield slice(start, min(start + PIECE, length))


def dot(a: Tensor, b: Tensor) -> float:
    """a · b of two vectors."""
    return float(torch.stack([torch.dot(a[piece], b[piece]) for piece in pieces(len(a))]).double().sum())


def norm(a: Tensor) -> float:
    """The length of a vector."""
    return math.sqrt(dot(a, a))


def project(rows: Tensor, vector: Tensor) -> Tensor:
    """(m,) float64: the dot product of every row of (m, P) with the vector (P,)."""
    total = torch.zeros(len(rows), dtype=torch.float64, device=vector.device)
    for piece in pieces(len(vector)):
        total += torch.mv(rows[:, piece], vector[piece])
    return total.cpu()


def combine(rows: Tensor, weights: Tensor) -> Tensor:
    """(P,): the sum of the rows of (m, P), each times its weight."""
    return torch.mv(rows.T, weights.to(rows))


def subtract(vector: Tensor, rows: Tensor, weights: Tensor) -> None:
    """Take the weighted sum of the rows (m, P) away from the vector (P,), in place."""
    vector.addmv_(rows.T, weights.to(rows), alpha=-1.0)
