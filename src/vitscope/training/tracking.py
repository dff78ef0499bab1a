"""Training curves in TensorBoard, Weights & Biases or Trackio, beside `metrics.csv`.

Each is an extra that is imported when it is asked for, and gets one value per column and epoch.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from vitscope.core.errors import VitscopeError

Tracker = Literal["tensorboard", "wandb", "trackio"]
PROJECT = "vitscope"


class Sink(Protocol):
    """Takes the values of an epoch."""

    def add(self, epoch: int, values: Mapping[str, float]) -> None:
        """Keep the values."""

    def close(self) -> None:
        """Make sure they are kept."""


class Tracking:
    """Passes rows of `metrics.csv` on to a tracker; without a name it does nothing."""

    def __init__(self, name: Tracker | None, folder: Path, options: Mapping[str, Any], finished: int) -> None:
        self._sink: Sink | None = None if name is None else _open(name, folder, options, finished)

    def row(self, row: Mapping[str, Any]) -> None:
        """Pass on a finished epoch; what was not measured is left out."""
        if self._sink is not None:
            values = {key: float(value) for key, value in row.items() if key != "epoch"}
            known = {key: value for key, value in values.items() if math.isfinite(value)}
            self._sink.add(int(row["epoch"]), known)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sink is not None:
            self._sink.close()


class _TensorBoard:
    """Event files in the run folder: tensorboard --logdir RUN."""

    def __init__(self, folder: Path, options: Mapping[str, Any], finished: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=finished + 1)

    def add(self, epoch: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, epoch)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _WandbLike:
    """Weights & Biases, and Trackio, which has the same functions."""

    def __init__(self, module: Any, folder: Path, options: Mapping[str, Any], **more: Any) -> None:
        self._module = module
        module.init(project=PROJECT, name=folder.name, config=dict(options), resume="allow", **more)

    def add(self, epoch: int, values: Mapping[str, float]) -> None:
        self._module.log(dict(values), step=epoch)

    def close(self) -> None:
        self._module.finish()


def _open(name: Tracker, folder: Path, options: Mapping[str, Any], finished: int) -> Sink:
    try:
        if name == "tensorboard":
            return _TensorBoard(folder, options, finished)
        if name == "wandb":
            import wandb  # type: ignore[import-not-found,unused-ignore]  # an extra

            return _WandbLike(wandb, folder, options, dir=str(folder), id=folder.name)
        if name == "trackio":
            import trackio  # type: ignore[import-not-found,unused-ignore]  # an extra

            return _WandbLike(trackio, folder, options)
    except ImportError as error:
        raise VitscopeError(
            f"--track {name} needs the package {name} ({error}): pip install {name}"
        ) from error
    raise VitscopeError(f"no tracker '{name}'; there are: tensorboard, wandb, trackio")
