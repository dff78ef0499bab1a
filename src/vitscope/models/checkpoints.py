"""The checkpoints of a run: the weights at named moments of a training.

run/checkpoints.json                      what there is, in the order of the training
run/checkpoints/init.safetensors          before the first step
run/checkpoints/warmup.safetensors        when the learning rate is at its highest
run/checkpoints/epoch-005.safetensors     after so many epochs (with --checkpoint-every)
run/checkpoints/best.safetensors          the highest held-out accuracy so far
run/model.safetensors                     "last": after the last finished epoch

for kept in list_checkpoints("runs/a"):
    model = create_model("runs/a", checkpoint=kept.name)
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult
from vitscope.results.plain_files import read_plain

FOLDER = "checkpoints"
INDEX = "checkpoints.json"
SCHEMA = 1


@dataclass(frozen=True)
class Checkpoint:
    """Weights at one moment of a training.

    Attributes:
        name: What to ask for.
        file: Path below the run folder.
        epoch: How many epochs were trained; a part of one counts.
        accuracy: On the held-out images; None if it was not measured then.
        nll: The same.
    """

    name: str
    file: str
    epoch: float
    accuracy: float | None = None
    nll: float | None = None


def list_checkpoints(run: str | os.PathLike[str]) -> list[Checkpoint]:
    """The checkpoints of a run folder in the order of the training; none if it kept none."""
    path = Path(run) / INDEX
    try:
        record: Any = json.loads(read_plain(path))
        if record["schema"] > SCHEMA:
            raise BadResult(
                f"{path} has schema {record['schema']}, this vitscope reads {SCHEMA}: pip install -U vitscope"
            )
        return [Checkpoint(**entry) for entry in record["checkpoints"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise BadResult(f"{path} is damaged ({reason(error)}); copy it again, or train again") from error


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
