"""Directions in which weights are moved.

    random:   d ~ N(0, 1), then scaled so that it means the same for all filters f of a parameter w:
                  filter   d_f <- d_f ||w_f|| / ||d_f||              (Li et al. 2018)
                  dim0     the same over the first axis of w, that is, across filters (the code published with
                           "How Do Vision Transformers Work?")
    pca:      the plane through the centre that is nearest to other weights w_i: the first two right singular vectors of
              the matrix whose rows are w_i - w
    hessian:  the two eigenvectors of largest |λ| of the Hessian

The last two have length one: a coordinate is a distance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from vitscope.core.errors import VitscopeError
from vitscope.curvature.dots import combine, dot, project
from vitscope.curvature.filter_parameters import Moved
from vitscope.curvature.lanczos import Eigenvalues
from vitscope.curvature.penalty import Penalty
from vitscope.curvature.top import top_eigenvalues

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
    return [
        [_normalised(_drawn(m.parameter, generator), m, normalisation) for m in moved] for _ in range(count)
    ]


def _drawn(parameter: nn.Parameter, generator: torch.Generator) -> Tensor:
    return torch.randn(parameter.shape, generator=generator).to(parameter.device, torch.float64)


def _normalised(drawn: Tensor, moved: Moved, normalisation: Normalisation) -> Tensor:
    weight = moved.parameter.detach()
    axes = moved.inside if normalisation == "filter" else (0,)
    wanted = torch.linalg.vector_norm(weight.double(), dim=axes, keepdim=True)
    drawn *= wanted / torch.linalg.vector_norm(drawn, dim=axes, keepdim=True)
    return torch.empty_like(weight).copy_(drawn)


@dataclass(frozen=True, eq=False)
class Principal:
    """The plane through the centre that is nearest to other weights.

    Attributes:
        directions: Two, orthonormal.
        explained: For each, the share of the squared distances to the centre that lies along it.
    """

    directions: list[Direction]
    explained: tuple[float, float]


def principal_directions(differences: Sequence[Direction]) -> Principal:
    """The two principal directions of weights, given as their differences to the centre.

    The first difference has coordinates that are not negative, which settles the signs.
    """
    if len(differences) < 2:
        raise VitscopeError(
            f"a plane needs two other models beside the centre, there are {len(differences)}; give a run with "
            "checkpoints (run=), or two models (others=)"
        )
    rows = torch.stack([flat(difference) for difference in differences])
    gram = torch.stack([project(rows, row) for row in rows])
    squares, vectors = torch.linalg.eigh((gram + gram.T) / 2)
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
        found.append(combine(rows, sign * along / squares[place].sqrt()))
    total = float(squares.clamp(min=0.0).sum())
    return Principal([shaped(v, differences[0]) for v in found], (first / total, second / total))


def eigen_directions(
    model: nn.Module, images: Tensor, targets: Tensor, moved: Sequence[Moved], penalty: Penalty, seed: int = 0
) -> tuple[list[Direction], Eigenvalues]:
    """The two eigenvectors of largest |λ| of the Hessian over the moved parameters, and how sure they are."""
    found = top_eigenvalues(
        model,
        images,
        targets,
        k=2,
        tol=1e-2,
        weight_decay=penalty.weight_decay,
        params=",".join(m.name for m in moved),
        l2=penalty.convention,
        decay_all=penalty.decay_all,
        seed=seed,
        vectors=True,
    )
    assert found.vectors is not None
    like = [m.parameter for m in moved]
    return [shaped(vector, like) for vector in found.vectors], found


def coordinates(difference: Direction, directions: Sequence[Direction]) -> tuple[tuple[float, ...], float]:
    """Coordinates of the nearest point of the plane, and the share of the distance to the centre that leads off it."""
    rows = torch.stack([flat(direction) for direction in directions])
    vector = flat(difference)
    gram = torch.stack([project(rows, row) for row in rows])
    found = torch.linalg.solve((gram + gram.T) / 2, project(rows, vector))
    length = dot(vector, vector)
    off = vector - combine(rows, found)
    return tuple(map(float, found)), (dot(off, off) / length) ** 0.5 if length > 0.0 else 0.0


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
