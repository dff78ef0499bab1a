"""What a run writes down of its model and its images, as facts for a page."""

import csv
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from vitscope.anatomy import anatomy
from vitscope.anatomy.flops import cheap_copy, count_flops
from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult, VitscopeError, warn
from vitscope.core.interface import interface_of
from vitscope.data import ImageData, data_config
from vitscope.data.fetchers import known_labels
from vitscope.data.task_data import TaskData
from vitscope.data.tasks.tensors import TensorMasks
from vitscope.engine.cache_key import data_fingerprint, weights_hash
from vitscope.models.create import random_weights
from vitscope.models.origin import origin, run_of, still_random
from vitscope.results.plain_files import check_plain, read_plain
from vitscope.results.task_score import task_score


def data_name(data: Any) -> str:
    """The name the data was loaded by, else what it is."""
    if isinstance(data, ImageData | TaskData):
        return f"{data.spec} ({data.split})"
    return "tensors" if isinstance(data, tuple | Tensor | np.ndarray) else type(data).__name__


def images_digest(data: Any) -> str:
    """What tells images without a name apart: their pixels and labels if they are tensors, else their labels.

    "" for data that has a name, and for data that tells neither before it is read.
    """
    if isinstance(data, DataLoader):
        in_order = isinstance(data.sampler, SequentialSampler) and isinstance(
            data.batch_sampler, BatchSampler
        )
        return images_digest(data.dataset) if in_order else ""
    if isinstance(data, TaskData) and isinstance(data.reader, TensorMasks):
        return data.digest.hex()[:16]
    if isinstance(data, ImageData | TaskData):
        return ""
    if isinstance(data, TensorDataset):
        data = data.tensors
    if isinstance(data, Tensor | np.ndarray):
        data = (data,)
    if isinstance(data, tuple | list):
        return (data_fingerprint(tuple(data)) or "")[:16]
    labels = known_labels(data)
    return "" if labels is None else hashlib.sha256(labels.tobytes()).hexdigest()[:16]


def model_facts(model: nn.Module, name: str) -> dict[str, Any]:
    """Name, size, cost, units, surgery and training of a model, as JSON can hold them."""
    size = data_config(model).input_size
    shown = _to_look_at(model, size)
    made, home = origin(model), run_of(model)
    return {
        "name": name,
        "class": type(model).__name__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "input_size": size,
        "weights_sha256": weights_hash(model),
        "random_weights": still_random(model) or bool(home and random_weights(Path(home))),
        "flops": _flops(shown, size),
        "units": _units(shown, size) or _units(model, size),
        "surgery": getattr(model, "vitscope_surgery", []),
        "interface": interface_of(model).to_dict(),
        "origin": {"name": made.name, "arguments": dict(made.arguments)} if made else None,
        "run": home,
        "training": training_facts(Path(home)) if home else None,
    }


def training_facts(folder: Path) -> dict[str, Any] | None:
    """How the model of a run folder was trained and how far it came; None where no training was recorded.

    Warns where its `metrics.csv` is damaged; whoever examines the model can do without.
    """
    path = folder / "metrics.csv"
    try:
        record = json.loads(read_plain(folder / "run.json"))
        check_plain([path])
    except (OSError, ValueError, BadResult):
        return None
    records = [r for r in (record, *record.get("earlier", [])) if "recipe" in (r.get("options") or {})]
    try:
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        return _facts_of(records[-1], rows) if records and rows else None
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
        warn(
            f"{path} is damaged ({reason(error)}), so how the model was trained is left out; go on with its training: "
            "--resume writes it anew"
        )
        return None


def _facts_of(record: Mapping[str, Any], rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Of a training's record and the rows of its `metrics.csv`."""
    options, last = record["options"], rows[-1]
    keys = ["name", "epochs", "batch_size", "lr", "optimizer", "weight_decay"]
    score = task_score(last, (record.get("model") or {}).get("task"))
    accuracy = [float(last[key]) for key in ("accuracy", "low", "high")]
    keys += ["auto_augment", "erase", "label_smoothing", "mixup", "cutmix", "mix_probability"]
    return {
        "recipe": {key: options["recipe"][key] for key in keys if key in options["recipe"]},
        "data": options.get("data"),
        "images": options.get("images"),
        "epochs": int(last["epoch"]),
        **({} if math.isnan(accuracy[0]) else {"accuracy": accuracy}),
        "score": score.label,
        "own": [_known(value) for value in score.of(last)],
        "curve": [
            [_known(number) for number in (*(_number(row, key) for key in _DRAWN), *score.of(row))]
            for row in rows
        ],
        "seconds": float(last["seconds"]),
    }


_DRAWN = ("epoch", "train_loss", "nll")  # of a row of `metrics.csv`, besides its score


def _number(row: Mapping[str, str], name: str) -> float:
    return float(row.get(name) or math.nan)


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _to_look_at(model: nn.Module, size: tuple[int, int, int]) -> nn.Module:
    """The model, where exams would watch it the same way, so that they find its anatomy; else a copy.

    The copy of a large model has no weights: looking at it costs little. It has no user's hooks: nobody notices.
    """
    try:
        double = cheap_copy(model, size)
    except Exception:  # whatever a foreign module does not like about being copied
        return model
    users = [
        (hooks, key)
        for module in double.modules()
        for hooks in (module._forward_hooks, module._forward_pre_hooks)
        for key, hook in hooks.items()
        if not hook.__module__.startswith("vitscope.")
    ]
    if not users and not any(p.is_meta for p in double.parameters()):
        return model
    for hooks, key in users:
        del hooks[key]
    return double


def _flops(model: nn.Module, size: tuple[int, int, int]) -> int | None:
    try:
        return count_flops(model, size)
    except Exception:  # whatever a foreign forward pass raises: a card without this line is still a card
        return None


def _units(model: nn.Module, size: tuple[int, int, int]) -> list[dict[str, Any]]:
    try:
        parts = anatomy(model, size)
    except (VitscopeError, RuntimeError, TypeError):  # exams that need the units will say what is wrong
        return []
    shown = ("name", "kind", "stage", "map_shape", "heads", "downsamples")
    return [{key: unit.describe()[key] for key in shown} for unit in parts]
