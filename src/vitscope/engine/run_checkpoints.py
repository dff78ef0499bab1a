"""The checkpoints of a run as a series: in the order of the training, one per moment of it."""

import os
from collections.abc import Sequence
from pathlib import Path

from vitscope.core.errors import BadResult
from vitscope.models import Checkpoint, list_checkpoints


def checkpoint_series(run: str | os.PathLike[str], names: Sequence[str] | None = None) -> list[Checkpoint]:
    """The named checkpoints, or all of different epochs, by epoch; "best" and "last" repeat weights of others.

    Raises:
        BadResult: The run kept none, or not one of the names.
    """
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
