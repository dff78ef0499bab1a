"""Named checkpoints: the weights at the moments of a training that exams look at (see `models.checkpoints`)."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from vitscope.models.checkpoints import FOLDER, INDEX, SCHEMA, Checkpoint, list_checkpoints, weight_bytes
from vitscope.results import atomic_write
from vitscope.results.manifest import write_listed


class Kept:
    """Writes the checkpoints of one training and the list of them.

    Args:
        folder: The run folder.
        every: Keep each epoch whose number this divides; None keeps none.
        epoch: How far a training that goes on has come, None if it begins. What the folder holds from later on will
            be made again.
    """

    def __init__(self, folder: Path, every: int | None, epoch: float | None) -> None:
        self._folder = folder
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
        epoch, accuracies = rows[-1]["epoch"], [row["accuracy"] for row in rows]
        names = [f"epoch-{epoch:03d}"] if self._every and epoch % self._every == 0 else []
        before = [accuracy for accuracy in accuracies[:-1] if not math.isnan(accuracy)]
        if not math.isnan(accuracies[-1]) and accuracies[-1] > max(before, default=-1.0):
            names.append("best")
        return names


def checkpoints_expected(epochs: int, every: int | None) -> int:
    """How many files a training keeps: before it, after the warm-up, the best, and one per so many epochs."""
    return 3 + (epochs // every if every else 0)


def _measured(row: Mapping[str, Any] | None, quantity: str) -> float | None:
    return None if row is None or math.isnan(row[quantity]) else float(row[quantity])
