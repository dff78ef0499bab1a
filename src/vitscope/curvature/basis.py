"""A set of long orthonormal vectors, in memory or, where that is too small for it, in a file that nobody sees."""

import os
import tempfile
from types import TracebackType
from typing import Self

import numpy as np
import torch
from torch import Tensor

from vitscope.core.errors import VitscopeError
from vitscope.curvature.dots import blocks, combine, norm, project, subtract


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
            shape = room * self.length
            rows = torch.from_file(self._file.name, shared=True, size=shape, dtype=start.dtype)
            self._rows = rows.view(room, self.length)
        else:
            self._rows = torch.empty(room, self.length, dtype=start.dtype, device=start.device)
        torch.div(start, size, out=self._rows[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
