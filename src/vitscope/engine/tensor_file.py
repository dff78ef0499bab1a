"""Tensors in a file that is whole or not there: what an exam under way has collected so far."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from vitscope.results.atomic import atomic_write

CHECKSUM = "sha256"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> None:
    """Put tensors and facts into a file, atomically and with a checksum."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = dict(facts)
    metadata[CHECKSUM] = _checksum(stored, metadata)
    atomic_write(path, save(stored, metadata))


def read_tensors(path: Path | None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What `write_tensors` wrote; nothing if there is no such file or if it is damaged."""
    if path is None or not path.is_file():
        return {}, {}
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
    except (SafetensorError, OSError):
        return {}, {}
    whole = metadata.get(CHECKSUM) == _checksum(tensors, metadata)
    return (tensors, metadata) if whole else ({}, {})


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    content = {name: text for name, text in metadata.items() if name != CHECKSUM}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
