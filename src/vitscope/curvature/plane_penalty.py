"""The l2 term on a line or plane of weights, in closed form.

    ||p + x a + y b||² = c' G c,     c = (1, x, y),  G the products of p, a, b with each other

for every parameter p that the term covers; a parameter that is not moved has a = b = 0.
"""

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn

from vitscope.curvature.dots import dot
from vitscope.curvature.penalty import Penalty


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
