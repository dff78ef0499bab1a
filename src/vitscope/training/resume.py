"""Whether and how a training goes on with what its run folder holds."""

import json
import os
from pathlib import Path
from typing import Any

from torch import nn

from vitscope import distributed
from vitscope.errors import VitscopeError
from vitscope.models import name_of, origin
from vitscope.training import checkpoint
from vitscope.training.checkpoint import Progress
from vitscope.training.recipe import Recipe
from vitscope.training.setup import Images
from vitscope.training.steps import Stepper


def find_position(
    folder: Path, stepper: Stepper, setting: dict[str, Any], resume: bool, force: bool
) -> tuple[Progress, list[str]]:
    """Where to begin: at the start, or where the training in the folder stands, whose state is then loaded.

    Returns:
        The position, and what is different from when the state was written (empty unless `force`).
    """
    seen = distributed.gather(checkpoint.exists(folder))
    if any(seen) and not all(seen):
        blind = [rank for rank, there in enumerate(seen) if not there]
        raise VitscopeError(
            f"{folder} holds a training that processes {blind} cannot see; give an --out that all machines share"
        )
    if not all(seen):
        return Progress(), []
    record = checkpoint.read_record(folder)
    if not resume:
        raise VitscopeError(
            f"{folder} holds a training that has finished {record['progress']['epoch']} epochs; "
            "go on with --resume (resume=True), or give another --out"
        )
    changed = differences(record["setting"], setting)
    if changed and not force:
        raise VitscopeError(
            f"cannot go on with {folder}: {'; '.join(changed)}. Give the same, --force to go on all the same, "
            "or another --out"
        )
    if any(change.startswith("recipe.optimizer ") for change in changed):
        raise VitscopeError(
            f"cannot go on with {folder} by another optimiser, even forced; give another --out"
        )
    position = checkpoint.load_state(folder, stepper.model, stepper.optimizer, choices=not changed)
    stepper.load_extra_tensors(checkpoint.load_extra(folder))
    if changed:
        position.begin_epoch_anew()  # its steps may be others now
    return position, changed


def describe_setting(
    name: str,
    model: nn.Module,
    images: Images,
    recipe: Recipe,
    fraction: float,
    seed: int,
    teacher: str | os.PathLike[str] | nn.Module | None = None,
) -> dict[str, Any]:
    """What two trainings must have in common for one to go on with the other."""
    made = origin(model)
    setting = {
        "model": name,
        "arguments": dict(made.arguments) if made else {},
        "surgery": getattr(model, "vitscope_surgery", []),
        "data": images.name,
        "images": len(images.train),
        "fraction": fraction,
        "seed": seed,
        "teacher": name_of(teacher) if isinstance(teacher, nn.Module) else teacher and os.fspath(teacher),
        "recipe": recipe.to_dict(),
    }
    return json.loads(json.dumps(setting))


def differences(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[str]:
    """What was changed between two settings, one line each."""
    changes = []
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            changes += differences(before, after, f"{prefix}{key}.")
        elif before != after:
            changes.append(f"{prefix}{key} was {before} and is {after} now")
    return changes
