"""The finished parts of an exam under way, so that an interrupted one does not do them again.

A part is what the exam can do on its own: a point of a landscape, a corruption at one severity. Parts are used only by
an exam of the same key: the same weights, images and options. Each process writes what it was given to a file of its
own; the main process reads all of them, and tells the others.

Tensors in a file that is whole or not there: what an exam under way has collected so far.
"""

import contextlib
import hashlib
import json
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from vitscope.core import distributed
from vitscope.results.atomic import atomic_write

SECONDS = 5.0  # of work that may be lost
FOLDER = "parts"
SEPARATOR = " / "  # between the name of a part and of a tensor in it


class Parts:
    """The parts of the exam `exam` in the run folder `folder`; without a folder or a key nothing is kept."""

    def __init__(self, folder: Path | None, exam: str = "", key: str | None = None) -> None:
        self._folder = folder / FOLDER / exam if folder is not None and key is not None else None
        self._facts = {"key": key or ""}
        self._own: dict[str, dict[str, Tensor]] = {}
        self._unsaved = False
        self._saved = time.monotonic()

    @classmethod
    def nowhere(cls) -> Self:
        """For an exam that is not kept."""
        return cls(None)

    def finished(self, names: Iterable[str]) -> dict[str, dict[str, Tensor]]:
        """Those of the parts that were finished earlier; every process calls this and gets the same answer."""
        wanted = set(names)
        found: dict[str, Tensor] = {}
        if distributed.is_main() and self._folder is not None:
            for path in sorted(self._folder.glob("*.safetensors")):
                tensors, facts = read_tensors(path)
                if facts.get("key") == self._facts["key"]:
                    found |= {flat: t for flat, t in tensors.items() if _split(flat)[0] in wanted}
        parts = _by_part(load(distributed.broadcast_bytes(save(found))))
        if distributed.is_main():
            self._own = dict(parts)  # of all processes that there were, whose files may not be written again
        return parts

    def put(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep a part that this process has finished."""
        self._own[name] = {key: tensor.detach().cpu().clone() for key, tensor in tensors.items()}
        self._unsaved = True
        if time.monotonic() - self._saved > SECONDS:
            self._save()

    def clear(self) -> None:
        """Forget them: the exam is complete, and its result is kept."""
        if self._folder is not None and distributed.is_main():
            shutil.rmtree(self._folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # other exams may have parts
                self._folder.parent.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._save()

    def _save(self) -> None:
        if self._folder is None or not self._unsaved:
            return
        flat = {f"{name}{SEPARATOR}{key}": t for name, part in self._own.items() for key, t in part.items()}
        write_tensors(self._folder / f"{distributed.rank()}.safetensors", flat, self._facts)
        self._unsaved, self._saved = False, time.monotonic()


def _by_part(flat: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    parts: dict[str, dict[str, Tensor]] = {}
    for path, tensor in flat.items():
        name, key = _split(path)
        parts.setdefault(name, {})[key] = tensor
    return parts


def _split(path: str) -> tuple[str, str]:
    name, key = path.rsplit(SEPARATOR, 1)
    return name, key


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
