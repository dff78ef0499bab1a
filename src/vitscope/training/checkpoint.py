"""Where a training stands, on disk: `last.safetensors` holds it all, `last.json` what people can read of it.

The tensors are the model's (`model.NAME`) and the optimiser's (`optimizer.INDEX.NAME`, `group.INDEX.NAME`);
everything else is JSON in the file's own metadata. So one atomic write replaces one state by the next.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from vitscope.errors import BadResult
from vitscope.models.state import load_weights
from vitscope.results import atomic_write

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
        rows: One row of `metrics.csv` per finished epoch.
    """

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    images: int = 0
    seconds: float = 0.0
    rows: list[dict[str, Any]] = field(default_factory=list)


def save_state(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    setting: dict[str, Any],
) -> None:
    """Write the state; `setting` is what a training must have in common with this one to go on from it."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
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
    text = json.dumps(record)
    contiguous = {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    atomic_write(folder / TENSORS, save(contiguous, metadata={"vitscope": text}))
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


def load_state(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    """Put a state back into a model and an optimiser that were built the same way."""
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
            else:
                index, _, key = rest.partition(".")
                state[kind][int(index)][key] = file.get_tensor(name)
    load_weights(model, weights, str(folder / TENSORS))
    groups = [state["group"][index] for index in sorted(state["group"])]
    for group, own in zip(groups, optimizer.state_dict()["param_groups"], strict=True):
        for key, value in own.items():
            if isinstance(value, tuple):
                group[key] = tuple(group[key])
    optimizer.load_state_dict({"state": state["optimizer"], "param_groups": groups})
    return Progress(**record["progress"])
