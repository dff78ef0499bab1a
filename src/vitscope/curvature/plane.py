"""A model's weights on a line or a plane: w(x, y) = w + x a + y b.

Every place is made from the centre, so that it does not depend on the places before it. The centre itself is never
written to: the model works on a copy, and is given its own tensors back in the end.

The l2 term on a line or plane of weights, in closed form.

    ||p + x a + y b||² = c' G c,     c = (1, x, y),  G the products of p, a, b with each other

for every parameter p that the term covers; a parameter that is not moved has a = b = 0.
"""

import math
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.curvature.dots import dot
from vitscope.curvature.penalty import Penalty


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


class PlanePenalty:
    """The value of `penalty` where the tensors of `model` are moved along `directions`."""

    def __init__(
        self,
        model: nn.Module,
        penalty: Penalty,
        tensors: Sequence[Tensor],
        directions: Sequence[Sequence[Tensor]],
    ) -> None:
        parameters = dict(model.named_parameters())
        covered = [list(parameters.values())[i] for i in penalty.covered(model, parameters)]
        place = {id(tensor): i for i, tensor in enumerate(tensors)}
        self._penalty = penalty
        self._gram = np.zeros((len(covered), 1 + len(directions), 1 + len(directions)))
        for gram, parameter in zip(self._gram, covered, strict=True):
            moved = place.get(id(parameter))
            vectors = [parameter.detach()] + ([] if moved is None else [d[moved] for d in directions])
            flat = [vector.reshape(-1) for vector in vectors]
            for i, one in enumerate(flat):
                for j, other in enumerate(flat[: i + 1]):
                    gram[i, j] = gram[j, i] = dot(one, other)

    def __call__(self, *coordinates: float) -> float:
        """Its value at these coordinates; those that are left out are 0."""
        c = np.zeros(self._gram.shape[1])
        c[: 1 + len(coordinates)] = (1.0, *coordinates)
        squares = np.maximum(np.einsum("i,pij,j->p", c, self._gram, c), 0.0)
        sums = np.sqrt(squares) if self._penalty.convention == "norm" else 0.5 * squares
        return self._penalty.weight_decay * math.fsum(sums)
