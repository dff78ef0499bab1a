"""Products of long vectors whose error is bounded on every CPU: float32 inside short pieces, float64 across them.

The order in which a library adds up n products is its own affair and differs from one CPU to the next. In the worst
one, one after another, the float32 sum of p of them is off by at most

    γ(p) |a|·|b|,     γ(p) = p u / (1 - p u),  u = 2^-24,  |a|·|b| the sum of their magnitudes <= ||a|| ||b||

For all of ten million entries that allows for everything. For pieces of 4096 it is 2.4e-4, whatever the length: the
pieces are added up in float64, which adds nothing to speak of. (What a library really does inside a piece is far better
than the worst order: 1e-7.) Shorter pieces cost time, and float64 throughout would cost three times as much.

A set of long orthonormal vectors, in memory or, where that is too small for it, in a file that nobody sees.
"""

import math
import os
import tempfile
from collections.abc import Iterator
from typing import Self

import numpy as np
import torch
from torch import Tensor

from vitscope.core.errors import VitscopeError

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


class Basis:
    """Room for `room` vectors of the type of `start`, the first of which is `start` scaled to length one.

    Above `memory` bytes (default: half of the machine's) they live in a temporary file: slower, with the same digits.
    """

    def __init__(self, room: int, start: Tensor, memory: int | None = None) -> None:
        size = norm(start)
        if not size > 0.0:
            raise VitscopeError(f"the start vector has length {size}; expected a positive one")
        self.length = len(start)
        self._file: tempfile._TemporaryFileWrapper[bytes] | None = None
        needed = room * self.length * start.element_size()
        if start.device.type == "cpu" and needed > (_half_of_memory() if memory is None else memory):
            self._file = tempfile.NamedTemporaryFile(prefix="vitscope-basis-")  # noqa: SIM115 - closed in __exit__
            entries = room * self.length
            rows = torch.from_file(self._file.name, shared=True, size=entries, dtype=start.dtype)
            self._rows = rows.view(room, self.length)
        else:
            self._rows = torch.empty(room, self.length, dtype=start.dtype, device=start.device)
        torch.div(start, size, out=self._rows[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows = torch.empty(0)
        if self._file is not None:
            self._file.close()

    def __getitem__(self, index: int) -> Tensor:
        return self._rows[index]

    def append(self, vector: Tensor, index: int) -> None:
        """Put a vector of length one at `index`."""
        self._rows[index] = vector

    def orthogonalise(self, vector: Tensor, count: int) -> np.ndarray:
        """Take out of `vector`, in place, what lies along the first `count` vectors; returns how much did."""
        along = project(self._rows[:count], vector)
        subtract(vector, self._rows[:count], along)
        return along.numpy()

    def combine(self, weights: np.ndarray) -> Tensor:
        """The sum of the first vectors, each times its weight."""
        return combine(self._rows[: len(weights)], torch.from_numpy(weights))

    def rotate(self, weights: np.ndarray, count: int) -> None:
        """Replace the first `count` vectors by the combinations (count, new), and move the next one after them."""
        new = weights.shape[1]
        turn = torch.from_numpy(np.ascontiguousarray(weights.T)).to(self._rows)
        for block in blocks(self.length):
            self._rows[:new, block] = turn @ self._rows[:count, block]
        self._rows[new] = self._rows[count]


def _half_of_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
