"""A model's weights on a line or a plane: w(x, y) = w + x a + y b.

Every place is made from the centre, so that it does not depend on the places before it. The centre itself is never
written to: the model works on a copy, and is given its own tensors back in the end.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import torch
from torch import Tensor


class Plane:
    """Moves `tensors`, inside the block that it is entered for.

    Args:
        tensors: Parameters, and buffers, of a model.
        directions: For each coordinate, a tensor per tensor; the same shapes and, to be quick, the same layout.
    """

    def __init__(self, tensors: Sequence[Tensor], directions: Sequence[Sequence[Tensor]]) -> None:
        self._tensors = list(tensors)
        self._first, *self._others = [list(direction) for direction in directions]
        self._centre: list[Tensor] = []
        self._moved: list[Tensor] = []
        self._row: list[Tensor] = []  # the centre moved along all directions but the first
        self._row_at: tuple[float, ...] = ()

    def __enter__(self) -> Self:
        self._centre = [tensor.data for tensor in self._tensors]
        self._moved = [tensor.data.clone() for tensor in self._tensors]
        self._row, self._row_at = self._centre, ()
        for tensor, moved in zip(self._tensors, self._moved, strict=True):
            tensor.data = moved
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for tensor, own in zip(self._tensors, self._centre, strict=True):
            tensor.data = own
        self._centre, self._moved, self._row = [], [], []

    @torch.no_grad()
    def move(self, *coordinates: float) -> None:
        """Put the weights at these coordinates; those that are left out are 0.

        Places that follow each other along the first direction cost one pass over the weights.
        """
        first, *others = coordinates or (0.0,)
        self._set_row(tuple(others))
        if first == 0.0:
            torch._foreach_copy_(self._moved, self._row)
            return
        for moved, row, direction in zip(self._moved, self._row, self._first, strict=True):
            torch.add(row, direction, alpha=first, out=moved)

    def _set_row(self, at: tuple[float, ...]) -> None:
        if at == self._row_at:
            return
        if not any(at):
            self._row = self._centre
        else:
            self._row = [tensor.clone() for tensor in self._centre]
            for coordinate, direction in zip(at, self._others, strict=False):
                torch._foreach_add_(self._row, direction, alpha=coordinate)
        self._row_at = at
