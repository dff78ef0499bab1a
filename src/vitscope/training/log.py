"""What a training shows while it runs: `metrics.csv`, and a bar with images/s and an estimate."""

import csv
import io
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tqdm import tqdm

from vitscope.results import atomic_write

COLUMNS = (
    "epoch",
    "lr",
    "train_loss",
    "nll",
    "accuracy",
    "low",
    "high",
    "images_per_second",
    "waiting",
    "monitoring",
    "seconds",
    "broken",
)
"""Of `metrics.csv`; `waiting` is the share of the training time that was spent waiting for images,
`monitoring` the share of all time so far that monitors took, `broken` the number of images that were found to be broken
so far."""


class Metrics:
    """`metrics.csv` of a run; begun anew with the rows that a resumed training has already."""

    def __init__(self, folder: Path, rows: Sequence[dict[str, Any]]) -> None:
        self._path = folder / "metrics.csv"
        atomic_write(self._path, _lines([dict(zip(COLUMNS, COLUMNS, strict=True)), *rows]))

    def add(self, row: dict[str, Any]) -> None:
        """Append a row; it is on disk when this returns."""
        with open(self._path, "a", newline="") as file:
            file.write(_lines([row]))
            file.flush()
            os.fsync(file.fileno())


class Bar:
    """A progress bar over all images of all epochs, on stderr."""

    def __init__(self, epochs: int, images_per_epoch: int, done: int, shown: bool) -> None:
        self._epochs = epochs
        self._shown: dict[str, str] = {}
        self._bar = tqdm(
            total=epochs * images_per_epoch,
            initial=done,
            unit=" images",
            unit_scale=True,
            disable=not shown,
            smoothing=0.1,
            mininterval=0.5 if sys.stderr.isatty() else 30.0,
        )

    def step(self, epoch: int, images: int, loss: float, waiting: float) -> None:
        """Count a step; `epoch` counts from 0, a `loss` that is not known yet is NaN."""
        self._bar.set_description(f"epoch {epoch + 1}/{self._epochs}", refresh=False)
        if not math.isnan(loss):
            self._shown["loss"] = f"{loss:.3f}"
        self._shown["waiting"] = f"{waiting:.0%}"
        self._bar.set_postfix(self._shown, refresh=False)
        self._bar.update(images)

    def row(self, row: dict[str, Any]) -> None:
        """Print a finished epoch above the bar."""
        if self._bar.disable:
            return
        text = f"epoch {row['epoch']}/{self._epochs}  training loss {row['train_loss']:.3f}"
        if not math.isnan(row["accuracy"]):
            text += f"  held-out accuracy {row['accuracy']:.2%}  nll {row['nll']:.3f}"
            self._shown["accuracy"] = f"{row['accuracy']:.2%}"
        text += (
            f"  {row['images_per_second']:.0f} images/s, {row['waiting']:.0%} of the time waiting for images"
        )
        if row["monitoring"]:
            text += f", {row['monitoring']:.1%} for monitors"
        self._bar.write(text, file=sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    csv.DictWriter(text, COLUMNS, lineterminator="\n").writerows(rows)
    return text.getvalue()
