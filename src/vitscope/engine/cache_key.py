"""What makes the key that a finished exam is known by: weights, structure, images, options, the exam's definition."""

import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.anatomy.taps.capture import Stream
from vitscope.core.interface import interface_of
from vitscope.data import FrameData, ImageData, data_config, readout
from vitscope.data.task_data import TaskData
from vitscope.engine.exam import Accumulator, Procedure
from vitscope.engine.takes_interface import Request
from vitscope.results.condition_rows import Headlined


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
