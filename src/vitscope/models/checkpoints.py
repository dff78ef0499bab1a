"""The checkpoints of a run: the weights at named moments of a training.

run/checkpoints.json                      what there is, in the order of the training
run/checkpoints/init.safetensors          before the first step
run/checkpoints/warmup.safetensors        when the learning rate is at its highest
run/checkpoints/epoch-005.safetensors     after so many epochs (with --checkpoint-every)
run/checkpoints/best.safetensors          the highest held-out accuracy so far
run/model.safetensors                     "last": after the last finished epoch

for kept in list_checkpoints("runs/a"):
    model = create_model("runs/a", checkpoint=kept.name)

Weights in safetensors: read them, compare them with a model, load them, write them. No pickle, ever.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NotRequired, TypedDict

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult
from vitscope.models.errors import BadWeights
from vitscope.results.manifest import damage
from vitscope.results.plain_files import check_plain
from vitscope.results.record_file import read_record

FOLDER = "checkpoints"
INDEX = "checkpoints.json"
SCHEMA = 1


@dataclass(frozen=True)
class Checkpoint:
    """Weights at one moment of a training."""

    name: str  # what to ask for
    file: str  # path below the run folder
    epoch: float  # how many epochs were trained; a part of one counts
    accuracy: float | None = None  # on the held-out images, if it was measured then
    nll: float | None = None  # the same


class _Entry(TypedDict):
    name: str
    file: str
    epoch: float
    accuracy: NotRequired[float | None]
    nll: NotRequired[float | None]


class _Index(TypedDict):
    schema: int
    checkpoints: list[_Entry]


_NAMES = tuple(_Entry.__annotations__)


def list_checkpoints(run: str | os.PathLike[str]) -> list[Checkpoint]:
    """The checkpoints of a run folder in the order of the training; none if it kept none."""
    path, advice = Path(run) / INDEX, "copy it again, or train again"
    try:
        record = read_record(path, _Index, SCHEMA, advice)
    except FileNotFoundError:
        return []
    found = [
        Checkpoint(**{name: entry[name] for name in _NAMES if name in entry})
        for entry in record["checkpoints"]
    ]
    for checkpoint in found:
        place = PurePosixPath(checkpoint.file)
        if place.is_absolute() or ".." in place.parts or not place.parts:
            raise BadResult(f"{path} is damaged ('{checkpoint.file}' is no file of the run folder); {advice}")
    return found


def find_checkpoint(run: Path, name: str) -> Path:
    """The file of a run's checkpoint."""
    kept = list_checkpoints(run)
    for checkpoint in kept:
        if checkpoint.name == name:
            return run / checkpoint.file
    there = f"it has {', '.join(checkpoint.name for checkpoint in kept)}" if kept else "it kept none"
    raise BadResult(
        f"{run} has no checkpoint '{name}'; {there}. More are kept with: train --checkpoint-every 1"
    )


def read_weights(path: Path, run: Path | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file, on the CPU; of a `run` folder's file, if it is what its manifest says."""
    problem = damage(run, path.relative_to(run).as_posix()) if run is not None else None
    if problem:
        raise BadWeights(f"{path} is damaged: {problem}; else take it again from where it came from")
    try:
        check_plain([path])
        return load_file(path)
    except FileNotFoundError as error:
        raise BadWeights(
            f"no weights at {path}; expected a safetensors file, as `vitscope train` writes it"
        ) from error
    except (SafetensorError, OSError) as error:
        raise BadWeights(
            f"{path} is damaged or no safetensors file ({reason(error)}); take it again from where it came from"
        ) from error


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], source: str, exact: bool = False) -> None:
    """Put `weights` into `model`, all of them and nothing else; `source` names them if they do not fit.

    Floating-point numbers may be of another precision than the model's, unless it has to be `exact`.
    """
    problem = difference(model.state_dict(), weights, exact)
    if problem:
        raise BadWeights(
            f"{source} does not fit {type(model).__name__}: {problem}; "
            "build the model with the arguments it was trained with (in Python num_classes=, img_size= ...)"
        )
    model.load_state_dict(weights)


def difference(own: Mapping[str, Tensor], given: Mapping[str, Tensor], exact: bool = False) -> str:
    """What keeps `given` from being the state of a model whose state is `own`; empty if nothing does."""
    both = [(name, given[name], tensor) for name, tensor in own.items() if name in given]
    problems = {
        "missing": [name for name in own if name not in given],
        "unexpected": [name for name in given if name not in own],
        "of another shape": [
            f"{name} (file {tuple(file.shape)}, model {tuple(tensor.shape)})"
            for name, file, tensor in both
            if file.shape != tensor.shape
        ],
        "of another type": [
            f"{name} (file {file.dtype}, model {tensor.dtype})"
            for name, file, tensor in both
            if not _same_type(file, tensor, exact)
        ],
    }
    return ", ".join(f"{len(found)} {what}: {_first(found)}" for what, found in problems.items() if found)


def weight_bytes(weights: Mapping[str, Tensor]) -> bytes:
    """A model's state as a safetensors file; tensors that share memory are written out each."""
    layout = torch.contiguous_format
    return save({name: t.detach().to("cpu", copy=True, memory_format=layout) for name, t in weights.items()})


def _same_type(one: Tensor, other: Tensor, exact: bool) -> bool:
    return one.dtype == other.dtype or (not exact and one.is_floating_point() and other.is_floating_point())


def _first(found: list[str], show: int = 4) -> str:
    more = f" and {len(found) - show} more" if len(found) > show else ""
    return ", ".join(found[:show]) + more
