"""Where a training stands, on disk: `last.safetensors` holds it all, `last.json` what people can read of it.

The tensors are the model's (`model.NAME`), the optimiser's (`optimizer.INDEX.NAME`, `group.INDEX.NAME`) and what
else a step keeps (`extra.NAME`); everything else is JSON in the file's own metadata. So one atomic write replaces
one state by the next. Tensors are written whole: how many processes shared a training cannot be told from its state.
The state before it stays as `previous.safetensors`: a damaged one, which the manifest tells, costs what was done since.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from vitscope.core import distributed
from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult
from vitscope.models.checkpoints import load_weights
from vitscope.results.manifest import damage, write_listed
from vitscope.results.plain_files import check_plain
from vitscope.results.result import NewerSchema
from vitscope.training.optimizer import check_moments
from vitscope.training.parallel import gathered_state, shard_like

SCHEMA = 1
TENSORS = "last.safetensors"
PREVIOUS = "previous.safetensors"
READABLE = "last.json"


@dataclass(frozen=True)
class SavedState:
    """A whole state on disk: its file, what in it is no tensor, and why it is not the latest (empty if it is)."""

    file: str
    record: dict[str, Any]
    fell_back: str = ""


@dataclass
class Progress:
    """How far a training has come."""

    epoch: int = 0  # finished ones
    step: int = 0  # steps done of the next epoch
    loss_sum: float = 0.0  # training loss of those steps, summed over images
    images: int = 0  # of those steps
    seconds: float = 0.0  # all time so far
    spent: float = 0.0  # the part of it that those steps took
    waited: float = 0.0  # the part of that in which they waited for images
    monitored: float = 0.0  # the part of `seconds` that monitors took
    look_seconds: float = 0.0  # how long they took the first time
    monitor_every: int | None = None  # epochs between two looks, once that is decided
    rows: list[dict[str, Any]] = field(default_factory=list)  # of `metrics.csv`, one per finished epoch

    def begin_epoch_anew(self) -> None:
        """Forget the steps of the epoch under way."""
        self.step, self.images = 0, 0
        self.loss_sum, self.spent, self.waited = 0.0, 0.0, 0.0

    def finish_epoch(self, row: dict[str, Any]) -> None:
        """Count the epoch under way as done."""
        self.rows.append(row)
        self.epoch += 1
        self.begin_epoch_anew()


def save_state(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    setting: dict[str, Any],
    extra: Mapping[str, Tensor] | None = None,
    keep_previous: bool = True,
) -> None:
    """Write the state; every process calls this, the main one writes.

    `setting` is what a training must have in common with this one to go on from it, `extra` are other tensors that it
    needs for that; `keep_previous` keeps the present state as the previous one, which is not for a damaged one.
    """
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"extra.{name}": tensor for name, tensor in (extra or {}).items()}
    state = optimizer.state_dict()
    numbers: dict[str, dict[str, dict[str, Any]]] = {"optimizer": {}, "group": {}}
    kinds = (("optimizer", state["state"].items()), ("group", enumerate(state["param_groups"])))
    for kind, items in kinds:
        for index, values in items:
            kept = {name: value for name, value in values.items() if isinstance(value, Tensor)}
            tensors |= {f"{kind}.{index}.{name}": value for name, value in kept.items()}
            numbers[kind][str(index)] = {name: values[name] for name in values if name not in kept}
    complete = gathered_state(tensors)
    if not distributed.is_main():
        return
    readable = {"schema": SCHEMA, "setting": setting, "progress": asdict(progress)}
    files: dict[str, bytes | str] = {
        TENSORS: save(complete, metadata={"vitscope": json.dumps({**readable, "numbers": numbers})}),
        READABLE: _readable(readable),
    }
    write_listed(folder, files, keep_as={TENSORS: PREVIOUS} if keep_previous else None)


def exists(folder: Path) -> bool:
    """Whether a training has left a state in this folder."""
    return any((folder / file).exists() for file in (TENSORS, PREVIOUS))


def find_state(folder: Path) -> SavedState:
    """The latest state that is whole; a `BadResult` if none is."""
    problems: list[str] = []
    for file in (TENSORS, PREVIOUS):
        if not (folder / file).exists():
            continue
        try:
            return SavedState(file, read_record(folder, file), "; ".join(problems))
        except NewerSchema:
            raise
        except BadResult as error:
            if str(error) not in problems:  # of the list of all files, for example
                problems.append(str(error))
    raise BadResult("; ".join(problems) or f"{folder} holds no state of a training")


def refresh_readable(folder: Path) -> None:
    """Write the part to read anew, where a process was killed after it had written the state and before this."""
    record = read_record(folder)
    told = _readable({name: record[name] for name in ("schema", "setting", "progress")})
    path = folder / READABLE
    check_plain([path])
    if not path.is_file() or path.read_bytes() != told.encode():
        write_listed(folder, {READABLE: told})


def _readable(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1) + "\n"


def read_record(folder: Path, file: str = TENSORS) -> dict[str, Any]:
    """The part of a state that is no tensor, checked, of a file that is what was written."""
    path = folder / file
    if problem := damage(folder, file):
        raise BadResult(f"{path} is damaged: {problem}; else copy it again, or give another --out")
    try:
        check_plain([path])
        with safe_open(path, "pt") as tensors:
            record: dict[str, Any] = json.loads((tensors.metadata() or {})["vitscope"])
        newer = record.get("schema", 0) > SCHEMA
        if not newer:
            _check(record)
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise BadResult(
            f"{path} is damaged ({reason(error)}); copy it again, or give another --out"
        ) from error
    if newer:
        raise NewerSchema(
            f"{path} has schema {record['schema']}, this vitscope reads {SCHEMA}: pip install -U vitscope"
        )
    return record


def _check(record: dict[str, Any]) -> None:
    """Raise something if the record is not one of a state."""
    Progress(**record["progress"])
    for part in (record["setting"], record["numbers"]["optimizer"], record["numbers"]["group"]):
        if not isinstance(part, dict):
            raise TypeError(f"{str(part)[:40]!r} where an object was expected")


def load_state(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    choices: bool = True,
    file: str = TENSORS,
) -> Progress:
    """Put a state back into a model and an optimiser that were built the same way.

    Without `choices` the optimiser keeps its own rates and decays and takes over its moments only.
    """
    record, path = read_record(folder, file), folder / file
    weights: dict[str, Tensor] = {}
    state: dict[str, dict[int, dict[str, Any]]] = {
        kind: {int(index): dict(values) for index, values in items.items()}
        for kind, items in record["numbers"].items()
    }
    with safe_open(path, "pt") as tensors:
        for name in tensors.keys():  # noqa: SIM118  (not a dict)
            kind, _, rest = name.partition(".")
            if kind == "model":
                weights[rest] = tensors.get_tensor(name)
            elif kind in state:
                index, _, key = rest.partition(".")
                state[kind].setdefault(int(index), {})[key] = tensors.get_tensor(name)
    load_whole(model, weights, str(path))
    _load_optimizer(optimizer, state["optimizer"], state["group"], choices, str(path))
    return Progress(**record["progress"])


def load_whole(model: nn.Module, weights: Mapping[str, Tensor], source: str) -> None:
    """Load whole tensors into a model that may hold a part of each only; `source` names them in an error."""
    own = model.state_dict()
    parts = {name: shard_like(tensor, own.get(name, tensor)) for name, tensor in weights.items()}
    load_weights(model, parts, source, exact=True)


def load_extra(folder: Path, file: str = TENSORS) -> dict[str, Tensor]:
    """The other tensors of a state."""
    with safe_open(folder / file, "pt") as tensors:
        names = [name for name in tensors.keys() if name.startswith("extra.")]  # noqa: SIM118  (not a dict)
        return {name.removeprefix("extra."): tensors.get_tensor(name) for name in names}


def _load_optimizer(
    optimizer: torch.optim.Optimizer,
    moments: dict[int, dict[str, Any]],
    groups: dict[int, dict[str, Any]],
    choices: bool,
    source: str,
) -> None:
    own_groups = optimizer.state_dict()["param_groups"]
    saved_groups = [groups[index] for index in sorted(groups)]
    members, own_members = ([len(group["params"]) for group in each] for each in (saved_groups, own_groups))
    if members != own_members:
        raise BadResult(
            f"{source} has groups of {members} parameters and the optimiser here {own_members}; give the recipe it "
            "was made with, or another --out"
        )
    check_moments(optimizer, moments, source)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, values in moments.items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                values[name] = shard_like(value, parameters[index])
    chosen = saved_groups if choices else own_groups
    for group, own in zip(chosen, own_groups, strict=True):
        group.update({key: tuple(group[key]) for key, value in own.items() if isinstance(value, tuple)})
    optimizer.load_state_dict({"state": moments, "param_groups": chosen})
