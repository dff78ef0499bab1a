"""What a run writes down of its model and its images: facts for a page, and keys that a finished exam is known by."""

import csv
import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from vitscope.anatomy import anatomy
from vitscope.anatomy.flops import count_flops, stand_in
from vitscope.anatomy.taps.capture import Stream
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.core.interface import interface_of
from vitscope.data import FrameData, ImageData, data_config, readout
from vitscope.data.fetchers import known_labels
from vitscope.data.task_data import TaskData
from vitscope.data.tasks.tensors import TensorMasks
from vitscope.engine.exam import Accumulator, Procedure
from vitscope.engine.takes_interface import Request
from vitscope.models.create import random_weights
from vitscope.models.origin import origin, run_of, still_random
from vitscope.results.condition_rows import Headlined
from vitscope.results.own_score import own_score
from vitscope.results.plain_files import check_plain, read_plain


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


def weights_hash(model: nn.Module) -> str:
    """SHA-256 over the names, types, shapes and bytes of everything in the state dict."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        if isinstance(value, Tensor):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(_bytes(value))
    return digest.hexdigest()


def data_fingerprint(data: Any) -> str | None:
    """What the images and labels are; None for data that would have to be read as a whole to know."""
    digest = hashlib.sha256()
    if isinstance(data, ImageData):
        digest.update(f"{data.spec} {data.split} {len(data)}".encode())
        digest.update(np.ascontiguousarray(data.labels).tobytes())
        digest.update(readout(data).digest)
        if isinstance(data, FrameData):
            digest.update(data.digest)
        if data.images is not None:
            for start in range(0, len(data), 4096):
                digest.update(np.ascontiguousarray(data.images[start : start + 4096]).tobytes())
        else:
            _add_files(digest, (data.name(i) for i in range(len(data))))
    elif isinstance(data, TaskData):
        digest.update(data.digest)
    elif isinstance(data, Tensor | np.ndarray):
        return data_fingerprint((data,))
    elif isinstance(data, tuple) and all(_has_numbers(part) for part in data):
        for part in data:
            tensor = torch.as_tensor(part)
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(_bytes(tensor))
    else:
        return None
    return digest.hexdigest()


def exam_keys(
    model: nn.Module,
    data: Any,
    exams: Iterable[type[Accumulator] | Procedure],
    request: Request,
    stream: Stream = "read",
) -> dict[str, str | None]:
    """Per exam, a key that is the same only if the exam would measure the same; None if that is unknown.

    It is made of the weights, the structure, how images are prepared, what was said about the model's outputs, the
    images, the subset and the exam's definition. Device and, for most exams, batch size are not part of it: they change
    digits only by rounding.
    """
    images = data_fingerprint(data)
    if images is None:
        return {exam.result.exam: None for exam in exams}
    structure = [repr(model), getattr(model, "vitscope_surgery", [])]
    common: list[Any] = [weights_hash(model), structure, data_config(model).to_dict(), images]
    common += [request.limit, request.seed]
    common += (
        ["whole pictures"] if isinstance(data, TaskData) else []
    )  # results of before saw their middle alone
    if said := interface_of(model).to_dict():
        common.append(said)
    keys: dict[str, str | None] = {}
    pixels = isinstance(data, TaskData) and data.task == "segmentation"
    for exam in exams:
        size = [request.batch_size] if exam.batch_matters else []
        settings = [exam.settings] if exam.settings else []
        settings += [stream] if exam.needs_maps and stream != "read" else []
        # results of before had narrower intervals of mIoU
        settings += ["wider"] if pixels and issubclass(exam.result, Headlined) else []
        content = json.dumps([exam.result.exam, exam.result.version, *common, *size, *settings]).encode()
        keys[exam.result.exam] = hashlib.sha256(content).hexdigest()
    return keys


def _has_numbers(part: Any) -> bool:
    return isinstance(part, Tensor) or (isinstance(part, np.ndarray) and part.dtype.kind in "biufc")


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _add_files(digest: Any, names: Iterable[str]) -> None:
    """File names, with sizes and times where they are files: reading a whole folder would take too long."""
    for name in names:
        digest.update(name.encode())
        if os.path.isfile(name):
            status = os.stat(name)
            digest.update(f" {status.st_size} {status.st_mtime_ns}".encode())


def model_facts(model: nn.Module, name: str) -> dict[str, Any]:
    """Name, size, cost, units, surgery and training of a model, as JSON can hold them."""
    size = data_config(model).input_size
    double = _double(model, size)
    made, home = origin(model), run_of(model)
    return {
        "name": name,
        "class": type(model).__name__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "input_size": size,
        "weights_sha256": weights_hash(model),
        "random_weights": still_random(model) or bool(home and random_weights(Path(home))),
        "flops": _flops(double, size),
        "units": _units(double, size) or _units(model, size),
        "surgery": getattr(model, "vitscope_surgery", []),
        "interface": interface_of(model).to_dict(),
        "origin": {"name": made.name, "arguments": dict(made.arguments)} if made else None,
        "run": home,
        "training": training_facts(Path(home)) if home else None,
    }


def training_facts(folder: Path) -> dict[str, Any] | None:
    """How the model of a run folder was trained and how far it came; None where no training was recorded."""
    try:
        record = json.loads(read_plain(folder / "run.json"))
        check_plain([folder / "metrics.csv"])
        with open(folder / "metrics.csv", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, BadResult):
        return None
    records = [r for r in (record, *record.get("earlier", [])) if "recipe" in (r.get("options") or {})]
    if not records or not rows:
        return None
    options, last = records[-1]["options"], rows[-1]
    keys = ["name", "epochs", "batch_size", "lr", "optimizer", "weight_decay"]
    score = own_score(last, (records[-1].get("model") or {}).get("task"))
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


def _double(model: nn.Module, size: tuple[int, int, int]) -> nn.Module:
    """A copy without a user's hooks: looking at it costs little, and nobody notices."""
    try:
        double = stand_in(model, size)
    except Exception:  # whatever a foreign module does not like about being copied
        return model
    for module in double.modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            for key in [k for k, hook in hooks.items() if not hook.__module__.startswith("vitscope.")]:
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
