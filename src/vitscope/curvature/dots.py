"""Products of long vectors whose error is bounded on every CPU: float32 inside short pieces, float64 across them.

The order in which a library adds up n products is its own affair and differs from one CPU to the next. In the worst
one, one after another, the float32 sum of p of them is off by at most

    γ(p) |a|·|b|,     γ(p) = p u / (1 - p u),  u = 2^-24,  |a|·|b| the sum of their magnitudes <= ||a|| ||b||

For all of ten million entries that allows for everything. For pieces of 4096 it is 2.4e-4, whatever the length: the
pieces are added up in float64, which adds nothing to speak of. (What a library really does inside a piece is far better
than the worst order: 1e-7.) Shorter pieces cost time, and float64 throughout would cost three times as much.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

PIECE = 1 << 12
BLOCK = 1 << 18  # entries that are worked on at once, for the cache: no sum depends on it


def blocks(length: int) -> Iterator[slice]:
    """The consecutive blocks of a vector of `length` entries."""
    for start in range(0, length, BLOCK):
        yield slice(start, min(start + BLOCK, length))


def dot(a: Tensor, b: Tensor) -> float:
    """a · b of two vectors."""
    return float(_sum_of_pieces(a[None], b))


def norm(a: Tensor) -> float:
    """The length of a vector, off by at most γ(4096) / 2 + u of itself: the root halves errors."""
    if not a.is_cpu:
        return math.sqrt(dot(a, a))
    whole = len(a) // PIECE * PIECE
    lengths = torch.linalg.vector_norm(a[:whole].view(-1, PIECE), dim=1).double()
    rest = a[whole:]
    return math.sqrt(float(torch.dot(lengths, lengths)) + float(torch.dot(rest, rest)))


def project(rows: Tensor, vector: Tensor) -> Tensor:
    """(m,) float64: the dot product of every row of (m, P) with the vector (P,)."""
    return _sum_of_pieces(rows, vector).cpu()


def _sum_of_pieces(rows: Tensor, vector: Tensor) -> Tensor:
    if vector.device.type != "cpu":
        return _elementwise(rows, vector)
    count = len(vector) // PIECE
    whole = count * PIECE
    total = torch.mv(rows[:, whole:], vector[whole:]).double()
    if count:
        columns = rows[:, :whole].view(-1, count, PIECE).permute(1, 2, 0)
        total += torch.bmm(vector[:whole].view(count, 1, PIECE), columns).sum((0, 1), dtype=torch.float64)
    return total


def _elementwise(rows: Tensor, vector: Tensor) -> Tensor:
    """For GPUs, whose matrix products may be set to fewer digits (TF32); every sum is in float64."""
    total = torch.zeros(len(rows), dtype=torch.float64, device=vector.device)
    for block in blocks(len(vector)):
        total += (rows[:, block] * vector[block]).sum(1, dtype=torch.float64)
    return total


def combine(rows: Tensor, weights: Tensor) -> Tensor:
    """(P,): the sum of the rows of (m, P), each times its weight."""
    return torch.mv(rows.T, weights.to(rows))


def subtract(vector: Tensor, rows: Tensor, weights: Tensor) -> None:
    """Take the weighted sum of the rows (m, P) away from the vector (P,), in place."""
    vector.addmv_(rows.T, weights.to(rows), alpha=-1.0)
