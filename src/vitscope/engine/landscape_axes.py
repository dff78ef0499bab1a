"""The two directions of a landscape, how far its grid reaches along them, and other weights of the model on it.

Other weights are those of other models of the same structure, or of the checkpoints of a run: in the order of the
training, one per moment of it.
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
from vitscope.core.errors import BadResult, VitscopeError, warn
from vitscope.curvature.loss import Penalty
from vitscope.curvature.parameters import Moved
from vitscope.curvature.plane import (
    Direction,
    Normalisation,
    coordinates,
    eigen_directions,
    principal_directions,
    random_directions,
)
from vitscope.engine.held_loss import HeldLoss
from vitscope.findings.landscape import Mark
from vitscope.models import Checkpoint, create_model, list_checkpoints, name_of
from vitscope.models.checkpoints import read_weights

Directions = Literal["random", "pca", "hessian"]
Points = Annotated[int, Range(2, 1001)]  # along a direction
HESSIAN_IMAGES = 64  # more would not fit into the memory of a gradient's graph
_MARGIN = 0.25  # beyond the outermost marks, in parts of the range
Other = nn.Module | str | os.PathLike[str]


def checkpoint_series(run: str | os.PathLike[str], names: Sequence[str] | None = None) -> list[Checkpoint]:
    """The named checkpoints, or all of different epochs, by epoch; "best" and "last" repeat weights of others."""
    kept = list_checkpoints(Path(run))
    if not kept:
        if not Path(run).is_dir():
            raise BadResult(
                f"there is no folder {run}; expected that of a training: vitscope train ... --out {run}"
            )
        raise BadResult(f"{run} kept no checkpoints; train with: vitscope train ... --checkpoint-every 1")
    by_name = {checkpoint.name: checkpoint for checkpoint in kept}
    if unknown := [name for name in names or () if name not in by_name]:
        raise BadResult(f"{run} has no checkpoint '{unknown[0]}'; it has {', '.join(by_name)}")
    chosen = kept if names is None else [by_name[name] for name in names]
    by_epoch: dict[float, Checkpoint] = {}
    for checkpoint in chosen:
        by_epoch.setdefault(float(checkpoint.epoch), checkpoint)
    return [by_epoch[epoch] for epoch in sorted(by_epoch)]


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
    first = loss.batches[0].part(slice(HESSIAN_IMAGES))
    found, values = eigen_directions(model, first.loss, moved, penalty, seed)
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
    """What a model that an axis leads to is called: its name, or that of its folder."""
    return name_of(other) if isinstance(other, nn.Module) else Path(other).name
