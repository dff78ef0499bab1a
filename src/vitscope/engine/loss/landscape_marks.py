"""Other weights of the same model, as places on its landscape: checkpoints of a run, other models."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from vitscope.core.errors import VitscopeError
from vitscope.curvature.directions import Direction, coordinates
from vitscope.engine.run_checkpoints import checkpoint_series
from vitscope.findings.landscape import Mark
from vitscope.models import create_model, name_of
from vitscope.models.state import read_weights

Other = nn.Module | str | os.PathLike[str]


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
