"""The two directions of a landscape, and how far its grid reaches along them."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from torch import nn

from vitscope.core import distributed
from vitscope.core.arguments import Range
from vitscope.curvature.directions import (
    Direction,
    Normalisation,
    eigen_directions,
    principal_directions,
    random_directions,
)
from vitscope.curvature.filter_parameters import Moved
from vitscope.curvature.penalty import Penalty
from vitscope.engine.loss.landscape_marks import Near
from vitscope.engine.loss.landscape_passes import HeldLoss

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
        warnings.warn(
            f"the directions did not converge (residual {values.residuals.max():.2g}): they are near the steepest ones",
            stacklevel=3,
        )
    return Axes(found, reach, reach, unknown, values.values, values.residuals)


def _around(values: Sequence[float], points: int) -> np.ndarray:
    """A grid over the values and 0, with a margin on both sides."""
    low, high = min(0.0, *values), max(0.0, *values)
    margin = _MARGIN * (high - low)
    return np.linspace(low - margin, high + margin, points)
