"""The two directions of a landscape, and how far its grid reaches along them.

Other weights of the same model, as places on its landscape: checkpoints of a run, other models.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from torch import Tensor, nn

from vitscope.core import distributed
from vitscope.core.arguments import Range
from vitscope.core.errors import VitscopeError, warn
from vitscope.curvature.directions import (
    Direction,
    Normalisation,
    coordinates,
    eigen_directions,
    principal_directions,
    random_directions,
)
from vitscope.curvature.filter_parameters import Moved
from vitscope.curvature.penalty import Penalty
from vitscope.engine.loss.landscape_passes import HeldLoss
from vitscope.engine.run_checkpoints import checkpoint_series
from vitscope.findings.landscape import Mark
from vitscope.models import create_model, name_of
from vitscope.models.checkpoints import read_weights

Directions = Literal["random", "pca", "hessian"]
Points = Annotated[int, Range(2, 1001)]  # along a direction
HESSIAN_IMAGES = 64  # more would not fit into the memory of a gradient's graph
_MARGIN = 0.25  # beyond the outermost marks, in parts of the range


@dataclass(frozen=True, eq=False)
class Axes:
    """Directions, coordinates along them, and the evidence for them (NaN where they have none)."""

    directions: list[Direction]
    x: np.ndarray
    y: np.ndarray
    explained: np.ndarray
    eigenvalues: np.ndarray
    residuals: np.ndarray


def difference(own: Mapping[str, Tensor], other: Mapping[str, Tensor], source: str) -> Direction:
    """Other weights minus a model's own, laid out like those."""
    for name, tensor in own.items():
        if name not in other or other[name].shape != tensor.shape:
            seen = tuple(other[name].shape) if name in other else "missing"
            raise VitscopeError(
                f"{source} does not fit the model: '{name}' is {seen}, expected {tuple(tensor.shape)}; weights on one "
                "landscape belong to the same model, built with the same arguments"
            )
    return [other[name].detach().to(tensor) - tensor.detach() for name, tensor in own.items()]


@dataclass(frozen=True, eq=False)
class Near:
    """Other weights, as their difference to the centre."""

    name: str
    difference: Direction
    epoch: float | None = None

    def mark(self, directions: Sequence[Direction]) -> Mark:
        """Its place on the plane of two directions."""
        (x, y), off = coordinates(self.difference, directions)
        return Mark(self.name, x, y, off, self.epoch)


def choose_axes(
    model: nn.Module,
    directions: Directions,
    normalisation: Normalisation,
    moved: Sequence[Moved],
    near: Sequence[Near],
    loss: HeldLoss,
    penalty: Penalty,
    span: float | None,
    points: int,
    seed: int,
) -> Axes:
    """The axes as `landscape` is asked for them."""
    unknown = np.full(2, np.nan)
    reach = np.linspace(-1.0, 1.0, points) * (1.0 if span is None else span)
    if directions == "random":
        return Axes(random_directions(moved, 2, seed, normalisation), reach, reach, *[unknown] * 3)
    if directions == "pca":
        plane = principal_directions([one.difference for one in near])
        marks = [one.mark(plane.directions) for one in near]
        ranges = [[mark.x for mark in marks], [mark.y for mark in marks]]
        x, y = ((_around(along, points) if span is None else reach) for along in ranges)
        return Axes(plane.directions, x, y, np.array(plane.explained), unknown, unknown)
    first = loss.batches[0]
    images, targets = first.images[:HESSIAN_IMAGES], first.targets[:HESSIAN_IMAGES]
    found, values = eigen_directions(model, images, targets, moved, penalty, seed)
    if not values.converged.all() and distributed.is_main():
        warn(
            f"the directions did not converge (residual {values.residuals.max():.2g}): they are near the steepest ones"
        )
    return Axes(found, reach, reach, unknown, values.values, values.residuals)


def _around(values: Sequence[float], points: int) -> np.ndarray:
    """A grid over the values and 0, with a margin on both sides."""
    low, high = min(0.0, *values), max(0.0, *values)
    margin = _MARGIN * (high - low)
    return np.linspace(low - margin, high + margin, points)


Other = nn.Module | str | os.PathLike[str]


def find_near(
    tensors: Mapping[str, Tensor], run: str | os.PathLike[str] | None, others: Sequence[Other]
) -> list[Near]:
    """The checkpoints of `run` in the order of its training, then `others`, relative to a model's own tensors."""
    found = []
    for checkpoint in checkpoint_series(run) if run is not None else ():
        weights = read_weights(Path(run or "") / checkpoint.file, Path(run or ""))
        source = f"checkpoint '{checkpoint.name}'"
        found.append(Near(checkpoint.name, difference(tensors, weights, source), float(checkpoint.epoch)))
    for other in others:
        name = other_name(other)
        found.append(Near(name, difference(tensors, state_of(other), name)))
    return found


def state_of(other: Other) -> dict[str, Tensor]:
    """The weights of a model, or of what `create_model` takes (with its pretrained weights)."""
    module = other if isinstance(other, nn.Module) else create_model(other, pretrained=None)
    return dict(module.state_dict())


def other_name(other: Other) -> str:
    """What to call it."""
    return name_of(other) if isinstance(other, nn.Module) else Path(other).name
