"""What a training keeps on the disk, and room for it: looked for before it begins, missed without losing what is there.

Named checkpoints hold the weights at the moments that exams look at (see `models.checkpoints`).

    needed = 3 state + (n + 1) weights,    state = weights + 2 trained parameters + extra

A file is replaced by writing the new one beside it, and the state before the last is kept: hence three states. n is
the number of kept checkpoints, and two moments per parameter are what the usual optimisers hold.
"""

import errno
import json
import math
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from vitscope.core.arguments.files import reason
from vitscope.core.errors import VitscopeError
from vitscope.models.checkpoints import FOLDER, INDEX, SCHEMA, Checkpoint, list_checkpoints, weight_bytes
from vitscope.results import atomic_write
from vitscope.results.manifest import write_listed
from vitscope.results.plain_files import probe

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NamedCheckpoints:
    """Writes the checkpoints of one training and the list of them.

    Args:
        folder: The run folder.
        every: Keep each epoch whose number this divides; None keeps none.
        epoch: How far a training that goes on has come, None if it begins. What the folder holds from later on will
            be made again.
        score: The column of a row by which one epoch is better than another.
    """

    def __init__(self, folder: Path, every: int | None, epoch: float | None, score: str = "accuracy") -> None:
        self._folder, self._score = folder, score
        self._every = every
        self._list = [kept for kept in list_checkpoints(folder) if epoch is not None and kept.epoch <= epoch]

    def keep(
        self,
        name: str,
        weights: Mapping[str, Tensor],
        epoch: float,
        row: Mapping[str, Any] | None = None,
        file: str | None = None,
    ) -> None:
        """Keep the weights under a name, or only list a `file` that holds them already."""
        path = file or f"{FOLDER}/{name}.safetensors"
        if file is None:
            write_listed(self._folder, {path: weight_bytes(weights)})
        accuracy, nll = (_measured(row, quantity) for quantity in ("accuracy", "nll"))
        self._list = [kept for kept in self._list if kept.name != name]
        self._list.append(Checkpoint(name, path, epoch, accuracy, nll))
        record = {"schema": SCHEMA, "checkpoints": [asdict(kept) for kept in self._list]}
        atomic_write(self._folder / INDEX, json.dumps(record, indent=1) + "\n")

    def names_for(self, rows: list[dict[str, Any]]) -> list[str]:
        """What to call the weights after the last of these rows: its epoch if that is kept, best, both, nothing."""
        epoch, scores = rows[-1]["epoch"], [row[self._score] for row in rows]
        names = [f"epoch-{epoch:03d}"] if self._every and epoch % self._every == 0 else []
        before = [score for score in scores[:-1] if not math.isnan(score)]
        if not math.isnan(scores[-1]) and scores[-1] > max(before, default=-1.0):
            names.append("best")
        return names


def checkpoints_expected(epochs: int, every: int | None) -> int:
    """How many files a training keeps: before it, after the warm-up, the best, and one per so many epochs."""
    return 3 + (epochs // every if every else 0)


def _measured(row: Mapping[str, Any] | None, quantity: str) -> float | None:
    return None if row is None or math.isnan(row[quantity]) else float(row[quantity])


class CannotWrite(VitscopeError):
    """The run folder cannot be written to: full, or not allowed."""


def bytes_needed(model: nn.Module, extra: Mapping[str, Tensor], checkpoints: int) -> int:
    """About how much a training writes into its folder, at the moment when it holds most."""
    weights = sum(map(_size, model.state_dict().values()))
    moments = 2 * sum(_size(parameter) for parameter in model.parameters() if parameter.requires_grad)
    state = weights + moments + sum(map(_size, extra.values()))
    return 3 * state + (checkpoints + 1) * weights


def check_room(folder: Path, needed: int) -> None:
    """Refuse to begin where there is not so much room, counting what the folder holds already."""
    held = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    there = folder
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    if needed - held > free:
        raise CannotWrite(
            f"{folder} would need {readable_size(needed - held)} and its disk has {readable_size(free)} free; "
            "free some, keep fewer with a larger --checkpoint-every, or give an --out on another disk"
        )


@contextmanager
def writing(folder: Path, kept: str) -> Iterator[None]:
    """Turn a failure to write into an error that says what of the training is safe (`kept`) and how to go on."""
    try:
        yield
    except OSError as error:
        full = error.errno in _FULL
        why = "the disk (or your quota) is full" if full else f"it cannot be written ({error.strerror})"
        advice = "make room" if full else "make it writable"
        raise CannotWrite(
            f"{folder}: {why}; {kept}. Either {advice} and give the same command with --resume, "
            "or give another --out"
        ) from error


def check_writable(folder: Path) -> None:
    """Write a little there, so that what is not allowed is known before the first epoch."""
    try:
        probe(folder, size=4096)
    except OSError as error:
        raise CannotWrite(
            f"{folder}: it cannot be written ({reason(error)}); nothing was trained yet. Make it writable, or give "
            "another --out"
        ) from error


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def readable_size(n: float) -> str:
    """Bytes as people say them."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"
