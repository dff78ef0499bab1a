"""What a training shows while it runs: `metrics.csv`, a bar with images/s and an estimate, and curves in a tracker.

TensorBoard, Weights & Biases and Trackio are extras that are imported when one is asked for; each gets one value per
column and epoch.
"""

import csv
import importlib
import io
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

from tqdm import tqdm

from vitscope.core.errors import VitscopeError
from vitscope.core.progress import EVERY, size
from vitscope.results import atomic_write

Tracker = Literal["tensorboard", "wandb", "trackio"]
PROJECT = "vitscope"
COLUMNS = (
    *"epoch lr train_loss nll accuracy low high images_per_second waiting monitoring seconds broken".split(),
)
"""Of `metrics.csv`; `waiting` is the share of the training time that was spent waiting for images, `monitoring` the
share of all time so far that monitors took, `broken` the number of images that were found to be broken so far."""


class Metrics:
    """`metrics.csv` of a run; begun anew with the rows that a resumed training has already.

    `more` are columns that belong to its task.
    """

    def __init__(self, folder: Path, rows: Sequence[dict[str, Any]], more: Sequence[str] = ()) -> None:
        self._path = folder / "metrics.csv"
        self._columns = (*COLUMNS, *more)
        heads = dict(zip(self._columns, self._columns, strict=True))
        atomic_write(self._path, _lines([heads, *rows], self._columns))

    def add(self, row: dict[str, Any]) -> None:
        """Append a row; it is on disk when this returns."""
        with open(self._path, "a", newline="") as file:
            file.write(_lines([row], self._columns))
            file.flush()
            os.fsync(file.fileno())


def _lines(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    text = io.StringIO()
    csv.DictWriter(text, columns, lineterminator="\n").writerows(rows)
    return text.getvalue()


class Bar:
    """A progress bar over all images of all epochs, on stderr."""

    def __init__(
        self,
        epochs: int,
        images_per_epoch: int,
        done: int,
        shown: bool,
        words: Callable[[dict[str, Any]], str] = lambda row: "",
    ) -> None:
        self._epochs, self._words = epochs, words
        self._shown: dict[str, str] = {}
        self._bar = tqdm(
            total=epochs * images_per_epoch,
            initial=done,
            unit=" images",
            unit_scale=True,
            disable=not shown,
            smoothing=0.1,
            mininterval=0.5 if sys.stderr.isatty() else EVERY,
            **size(),
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
        if words := self._words(row):
            nll = "" if math.isnan(row["nll"]) else f"  nll {row['nll']:.3f}"  # a detector has none
            text += f"  held-out {words.partition(' (')[0]}{nll}"
            self._shown["held out"] = words.partition(" (")[0]
        text += (
            f"  {row['images_per_second']:.0f} images/s, {row['waiting']:.0%} of the time waiting for images"
        )
        if row["monitoring"]:
            text += f", {row['monitoring']:.1%} for monitors"
        self._bar.write(text, file=sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()


class Tracking:
    """Passes rows of `metrics.csv` on to a tracker; without a name it does nothing."""

    def __init__(self, name: Tracker | None, folder: Path, options: Mapping[str, Any], finished: int) -> None:
        self._add, self._close = _open(name, folder, options, finished)

    def row(self, row: Mapping[str, Any]) -> None:
        """Pass on a finished epoch; what was not measured is left out."""
        values = {key: float(value) for key, value in row.items() if key != "epoch"}
        known = {key: value for key, value in values.items() if math.isfinite(value)}
        self._add(known, int(row["epoch"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


def _open(
    name: Tracker | None, folder: Path, options: Mapping[str, Any], finished: int
) -> tuple[Callable[[dict[str, float], int], Any], Callable[[], Any]]:
    """What takes the values of an epoch, and what makes sure at the end that they are kept."""
    if name is None:
        return lambda values, epoch: None, lambda: None
    if name not in get_args(Tracker):
        raise VitscopeError(f"no tracker '{name}'; there are: {', '.join(get_args(Tracker))}")
    try:
        if name == "tensorboard":
            from torch.utils.tensorboard import SummaryWriter

            writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=finished + 1)

            def add(values: dict[str, float], epoch: int) -> None:
                for key, value in values.items():
                    writer.add_scalar(key, value, epoch)
                writer.flush()

            return add, writer.close
        module = importlib.import_module(name)  # the two have the same functions
    except ImportError as error:
        raise VitscopeError(
            f"--track {name} needs the package {name} ({error}): pip install {name}"
        ) from error
    own = {"dir": str(folder), "id": folder.name} if name == "wandb" else {}
    module.init(project=PROJECT, name=folder.name, config=dict(options), resume="allow", **own)
    return lambda values, epoch: module.log(values, step=epoch), module.finish
