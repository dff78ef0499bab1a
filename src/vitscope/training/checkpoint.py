"""Where a training stands, on disk: `last.safetensors` holds it all, `last.json` what people can read of it.

The tensors are the model's (`model.NAME`), the optimiser's (`optimizer.INDEX.NAME`, `group.INDEX.NAME`) and what
else a step keeps (`extra.NAME`); everything else is JSON in the file's own metadata. So one atomic write replaces
one state by the next. Tensors are written whole: how many processes shared a training cannot be told from its state.
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

from vitscope import distributed
from vitscope.errors import BadResult
from vitscope.models.state import load_weights
from vitscope.results import atomic_write
from vitscope.training.parallel import placed, whole

SCHEMA = 1
TENSORS = "last.safetensors"
READABLE = "last.json"


@dataclass
class Progress:
    """How far a training has come.

    Attributes:
        epoch: Finished epochs.
        step: Steps done of the next epoch.
        loss_sum: Training loss of those steps, summed over images.
        images: Images of those steps.
        seconds: Time spent so far.
        spent: Part of it that those steps took.
        waited: Part of that in which they waited for images.
        monitored: Part of `seconds` that monitors took.
        look_seconds: How long they took the first time.
        monitor_every: Epochs between two looks, once that is decided.
        rows: One row of `metrics.csv` per finished epoch.
    """

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    images: int = 0
    seconds: float = 0.0
    spent: float = 0.0
    waited: float = 0.0
    monitored: float = 0.0
    look_seconds: float = 0.0
    monitor_every: int | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)

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
) -> None:
    """Write the state; every process calls this, the main one writes.

    Args:
        folder: The run folder.
        model: Its weights and buffers are kept.
        optimizer: The same.
        progress: How far the training has come.
        setting: What a training must have in common with this one to go on from it.
        extra: Other tensors that it needs for that.
    """
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"extra.{name}": tensor for name, tensor in (extra or {}).items()}
    state = optimizer.state_dict()
    numbers: dict[str, dict[str, dict[str, Any]]] = {"optimizer": {}, "group": {}}
    kinds = (("optimizer", state["state"].items()), ("group", enumerate(state["param_groups"])))
    for kind, items in kinds:
        for index, values in items:
            own = numbers[kind].setdefault(str(index), {})
            for name, value in values.items():
                if isinstance(value, Tensor):
                    tensors[f"{kind}.{index}.{name}"] = value
                else:
                    own[name] = value
    record = {
        "schema": SCHEMA,
        "setting": setting,
        "progress": asdict(progress),
        "numbers": numbers,
    }
    complete = whole(tensors)
    if not distributed.is_main():
        return
    atomic_write(folder / TENSORS, save(complete, metadata={"vitscope": json.dumps(record)}))
    readable = {key: record[key] for key in ("schema", "setting", "progress")}
    atomic_write(folder / READABLE, json.dumps(readable, indent=1) + "\n")


def exists(folder: Path) -> bool:
    """Whether a training has left a state in this folder."""
    return (folder / TENSORS).exists()


def read_record(folder: Path) -> dict[str, Any]:
    """The part of a state that is no tensor, checked."""
    path = folder / TENSORS
    try:
        with safe_open(path, "pt") as file:
            record = json.loads((file.metadata() or {})["vitscope"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise BadResult(
            f"{path} is damaged ({type(error).__name__}: {error}); copy it again, or remove it to train anew"
        ) from error
    if record.get("schema", 0) > SCHEMA:
        raise BadResult(
            f"{path} has schema {record['schema']}, this vitscope reads {SCHEMA}: pip install -U vitscope"
        )
    return record


def load_state(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, choices: bool = True
) -> Progress:
    """Put a state back into a model and an optimiser that were built the same way.

    Without `choices` the optimiser keeps its own rates and decays and takes over its moments only.
    """
    record = read_record(folder)
    weights: dict[str, Tensor] = {}
    state: dict[str, dict[int, dict[str, Any]]] = {
        kind: {int(index): dict(values) for index, values in items.items()}
        for kind, items in record["numbers"].items()
    }
    with safe_open(folder / TENSORS, "pt") as file:
        for name in file.keys():  # noqa: SIM118  (not a dict)
            kind, _, rest = name.partition(".")
            if kind == "model":
                weights[rest] = file.get_tensor(name)
            elif kind in state:
                index, _, key = rest.partition(".")
                state[kind][int(index)][key] = file.get_tensor(name)
    load_whole(model, weights, str(folder / TENSORS))
    _load_optimizer(optimizer, state["optimizer"], state["group"], choices, str(folder / TENSORS))
    return Progress(**record["progress"])


def load_whole(model: nn.Module, weights: Mapping[str, Tensor], source: str) -> None:
    """Load whole tensors into a model that may hold a part of each only; `source` names them in an error."""
    own = model.state_dict()
    parts = {name: placed(tensor, own.get(name, tensor)) for name, tensor in weights.items()}
    load_weights(model, parts, source)


def load_extra(folder: Path) -> dict[str, Tensor]:
    """The other tensors of a state."""
    with safe_open(folder / TENSORS, "pt") as file:
        names = [name for name in file.keys() if name.startswith("extra.")]  # noqa: SIM118  (not a dict)
        return {name.removeprefix("extra."): file.get_tensor(name) for name in names}


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
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, values in moments.items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                values[name] = placed(value, parameters[index])
    chosen = saved_groups if choices else own_groups
    for group, own in zip(chosen, own_groups, strict=True):
        group.update({key: tuple(group[key]) for key, value in own.items() if isinstance(value, tuple)})
    optimizer.load_state_dict({"state": moments, "param_groups": chosen})
