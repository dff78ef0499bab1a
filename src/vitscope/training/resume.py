"""Whether and how a training goes on with what its run folder holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from vitscope.core import distributed
from vitscope.core.errors import VitscopeError, alike
from vitscope.models import run_of
from vitscope.models.sources.run_folder import CONFIG
from vitscope.results import Run
from vitscope.training import checkpoint
from vitscope.training.checkpoint import Progress
from vitscope.training.parallel import collectively
from vitscope.training.setup import TrainingPlan
from vitscope.training.steps import Stepper


@dataclass(frozen=True)
class Start:
    """Where a training begins."""

    position: Progress
    resumed: bool = False  # it goes on with a state
    changed: Sequence[str] = ()  # what is different from when the state was written (empty unless forced)
    fell_back: str = ""  # why it is not the latest state, which is damaged; empty if it is
    missed: str = ""  # what to tell somebody who wanted to go on where there is nothing to go on with


def find_position(plan: TrainingPlan, stepper: Stepper) -> Start:
    """Where to begin: at the start, or where the training in the folder stands, whose state is then loaded."""
    folder, resume = plan.folder, plan.options.resume
    seen = distributed.gather(checkpoint.exists(folder))
    if any(seen) and not all(seen):
        blind = [rank for rank, there in enumerate(seen) if not there]
        raise VitscopeError(
            f"{folder} holds a training that processes {blind} cannot see; give an --out that all machines share"
        )
    if not all(seen):
        if resume and (folder / checkpoint.READABLE).exists():
            raise VitscopeError(
                f"{folder} was trained, and its state ({checkpoint.TENSORS}) is gone; copy it there again, or give "
                "another --out"
            )
        _refuse_to_overwrite(folder, stepper.model, plan.setting)
        return Start(Progress(), missed=_missed(folder) if resume else "")
    with collectively():
        saved = checkpoint.find_state(folder)
    if len(set(distributed.gather(saved.file))) > 1:
        raise VitscopeError(
            f"{folder} looks different from one process to another; see that all read the same files"
        )
    record = saved.record
    if not resume:
        raise VitscopeError(
            f"{folder} holds a training that has finished {record['progress']['epoch']} epochs; "
            "go on with --resume (resume=True), or give another --out"
        )
    changed = differences(record["setting"], plan.setting)
    if changed and not plan.options.force:
        raise VitscopeError(
            f"cannot go on with {folder}: {'; '.join(changed)}. Give the same, --force to go on all the same, "
            "or another --out"
        )
    if any(change.startswith("recipe.optimizer ") for change in changed):
        raise VitscopeError(
            f"cannot go on with {folder} by another optimiser, even forced; give another --out"
        )
    position = checkpoint.load_state(
        folder, stepper.model, stepper.optimizer, choices=not changed, file=saved.file
    )
    stepper.load_extra_tensors(checkpoint.load_extra(folder, saved.file))
    if changed:
        position.begin_epoch_anew()  # its steps may be others now
    return Start(position, resumed=True, changed=changed, fell_back=saved.fell_back)


def _missed(folder: Path) -> str:
    """That a folder holds no training, and which one beside it does and has nearly that name."""
    beside = folder.parent.iterdir() if folder.parent.is_dir() else ()
    trainings = [path.name for path in beside if path != folder and path.is_dir() and checkpoint.exists(path)]
    near = alike(folder.name, trainings)
    meant = f"; did you mean {folder.parent / near[0]}?" if near else ""
    return f"{folder} holds no training to go on with, a new one begins there{meant}"


def _refuse_to_overwrite(folder: Path, model: nn.Module, setting: dict[str, Any]) -> None:
    """A model that something else has put into the folder stays, unless it is the one that is to be trained.

    A training that was killed in its first epoch may have left one as well; `run.json` says so.
    """
    home = run_of(model)
    is_own = home is not None and Path(home).is_dir() and Path(home).resolve() == folder.resolve()
    if is_own or not (folder / CONFIG).exists():
        return
    trained = [options for options in _records(folder) if "recipe" in options and "fraction" in options]
    if any(options.get("model") == setting["model"] for options in trained):
        return
    raise VitscopeError(
        f"{folder} holds a model that this training has not made (by vitscope operate, or saved there); give another "
        f"--out, or train that model: vitscope train {folder} --out {folder}"
    )


def _records(folder: Path) -> list[Mapping[str, Any]]:
    """The options of every command that wrote into the folder."""
    if not (folder / "run.json").exists():
        return []
    record = Run.open(folder).record
    options = [one.get("options") for one in (record, *(record.get("earlier") or ()))]
    return [one for one in options if isinstance(one, Mapping)]


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
