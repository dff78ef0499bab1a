"""Directions in which weights are moved, and a model's weights on a line or a plane of them: w(x, y) = w + x a + y b.

    random:   d ~ N(0, 1), then scaled so that it means the same for all filters f of a parameter w:
                  filter   d_f <- d_f ||w_f|| / ||d_f||              (Li et al. 2018)
                  dim0     the same over the first axis of w, that is, across filters (the code published with
                           "How Do Vision Transformers Work?")
    pca:      the plane through the centre that is nearest to other weights w_i: the first two right singular vectors of
              the matrix whose rows are w_i - w
    hessian:  the two eigenvectors of largest |λ| of the Hessian

The last two have length one: a coordinate is a distance.

The l2 term has a closed form there. For every parameter p that it covers (one that is not moved has a = b = 0)

    ||p + x a + y b||² = c' G c,     c = (1, x, y),  G the products of p, a, b with each other
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.core.errors import VitscopeError
from vitscope.curvature.dots import combine, dot, project
from vitscope.curvature.lanczos import Eigenvalues, lanczos
from vitscope.curvature.loss import BatchLoss, Penalty
from vitscope.curvature.parameters import Moved
from vitscope.curvature.product import hessian_of_loss
from vitscope.curvature.spectrum import random_start

Direction = list[Tensor]
Normalisation = Literal["filter", "dim0"]
_LEAST = 1e-6  # of the first singular value: below it a second direction is rounding


def random_directions(
    moved: Sequence[Moved], count: int = 2, seed: int = 0, normalisation: Normalisation = "filter"
) -> list[Direction]:
    """Normalised random directions, laid out like the parameters; the same on every device and in every precision."""
    if normalisation not in get_args(Normalisation):
        raise VitscopeError(
            f"normalisation is '{normalisation}'; expected {' or '.join(get_args(Normalisation))}"
        )
    generator = torch.Generator().manual_seed(seed)
    return [[_random_direction(m, generator, normalisation) for m in moved] for _ in range(count)]


def _random_direction(moved: Moved, generator: torch.Generator, normalisation: Normalisation) -> Tensor:
    weight = moved.parameter.detach()
    drawn = torch.randn(weight.shape, generator=generator).to(weight.device, torch.float64)
    axes = moved.inside if normalisation == "filter" else (0,)
    wanted = torch.linalg.vector_norm(weight.double(), dim=axes, keepdim=True)
    drawn *= wanted / torch.linalg.vector_norm(drawn, dim=axes, keepdim=True)
    return torch.empty_like(weight).copy_(drawn)


@dataclass(frozen=True, eq=False)
class Principal:
    """The plane through the centre that is nearest to other weights."""

    directions: list[Direction]  # two, orthonormal
    explained: tuple[float, float]  # for each, the share of the squared distances to the centre along it


def principal_directions(differences: Sequence[Direction]) -> Principal:
    """The two principal directions of weights, given as their differences to the centre.

    The first difference has coordinates that are not negative, which settles the signs.
    """
    if len(differences) < 2:
        raise VitscopeError(
            f"a plane needs two other models beside the centre, there are {len(differences)}; give a run with "
            "checkpoints (run=), or two models (others=)"
        )
    rows, gram = _rows_and_gram(differences)
    squares, vectors = torch.linalg.eigh(gram)
    first, second = float(squares[-1]), float(squares[-2])
    if second <= _LEAST**2 * first:
        raise VitscopeError(
            f"the {len(rows)} models lie on one line through the centre; a plane needs a second direction: "
            "landscape_line shows a line"
        )
    found = []
    for place in (-1, -2):
        along = vectors[:, place]
        sign = -1.0 if float(along[0]) < 0.0 else 1.0
        found.append(shaped(combine(rows, sign * along / squares[place].sqrt()), differences[0]))
    total = float(squares.clamp(min=0.0).sum())
    return Principal(found, (first / total, second / total))


def eigen_directions(
    model: nn.Module, batch: BatchLoss, moved: Sequence[Moved], penalty: Penalty, seed: int = 0
) -> tuple[list[Direction], Eigenvalues]:
    """The two eigenvectors of largest |λ| of the Hessian over the moved parameters, and how sure they are."""
    names = ",".join(m.name for m in moved)
    with hessian_of_loss(model, batch, params=names, penalty=penalty) as product:
        found = lanczos(product, random_start(product, seed), 2, 1e-2, vectors=True)
    assert found.vectors is not None
    like = [m.parameter for m in moved]
    return [shaped(vector, like) for vector in found.vectors], found


def coordinates(difference: Direction, directions: Sequence[Direction]) -> tuple[tuple[float, ...], float]:
    """Coordinates of the nearest point of the plane, and the share of the distance to the centre that leads off it."""
    (rows, gram), vector = _rows_and_gram(directions), flat(difference)
    found = torch.linalg.solve(gram, project(rows, vector))
    length = dot(vector, vector)
    off = vector - combine(rows, found)
    return tuple(map(float, found)), (dot(off, off) / length) ** 0.5 if length > 0.0 else 0.0


def _rows_and_gram(vectors: Sequence[Direction]) -> tuple[Tensor, Tensor]:
    """The vectors as rows, and their products with each other."""
    rows = torch.stack([flat(vector) for vector in vectors])
    gram = torch.stack([project(rows, row) for row in rows])
    return rows, (gram + gram.T) / 2


def flat(direction: Sequence[Tensor]) -> Tensor:
    """The tensors as one vector."""
    return torch.cat([part.detach().reshape(-1) for part in direction])


def shaped(vector: Tensor, like: Sequence[Tensor]) -> Direction:
    """A vector cut into tensors of the shapes and layouts of others."""
    parts = vector.split([tensor.numel() for tensor in like])
    return [
        torch.empty_like(tensor.detach()).copy_(part.view(tensor.shape))
        for part, tensor in zip(parts, like, strict=True)
    ]


class Plane:
    """Moves `tensors`, inside the block that it is entered for.

    Every place is made from the centre, so that it does not depend on the places before it. The centre itself is never
    written to: the model works on a copy, and is given its own tensors back in the end. The directions have, for each
    coordinate, a tensor per tensor (parameters and buffers), of the same shapes and, to be quick, the same layout.
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

    def __exit__(self, *_: object) -> None:
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
        self, model: nn.Module, penalty: Penalty, tensors: Sequence[Tensor], directions: Sequence[Direction]
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
