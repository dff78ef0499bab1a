"""What an exam under way has collected so far, on disk, so that an interrupted one goes on where it stopped.

`PartialResults` keeps the finished parts of an exam: a point of a landscape, a corruption at one severity, or what one
process has summed up over its first batches (`ResumablePass`), in the one pass that exams share or in one of their own.
They are used only by an exam of the same key: the same weights, images and options; sums over batches also want the
same batch size and number of processes. Each process writes a file of its own, which is whole or not there.
"""

import contextlib
import hashlib
import json
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from vitscope.core import distributed
from vitscope.engine.exam import Sums
from vitscope.results.atomic import atomic_write

SEPARATOR = " / "  # between the name of a part and of a tensor in it
CHECKSUM = "sha256"


class PartialResults:
    """The parts of the exam `exam` in the run folder `folder`; without a folder or a key nothing is kept."""

    SECONDS = 10.0  # of work that may be lost

    def __init__(self, folder: Path | None = None, exam: str = "", key: str | None = None) -> None:
        self._folder = folder / "parts" / exam if folder is not None and key is not None else None
        self._path = self._folder / f"{distributed.rank()}.safetensors" if self._folder is not None else None
        self._facts = {"key": key or ""}
        self._own: dict[str, dict[str, Tensor]] = {}
        self._unsaved = False
        self._saved = time.monotonic()

    def finished(self, names: Iterable[str]) -> dict[str, dict[str, Tensor]]:
        """The tensors, by name, of those parts among `names` that were finished before an interruption.

        Every process calls this and gets the same: the main process reads the files of all, and tells the others.
        """
        wanted = set(names)
        flat: dict[str, Tensor] = {}
        if distributed.is_main() and self._folder is not None:
            for path in sorted(self._folder.glob("*.safetensors")):
                found = self._read(path)
                flat |= {name: t for name, t in found.items() if name.rsplit(SEPARATOR, 1)[0] in wanted}
        parts = _by_part(load(distributed.broadcast_bytes(save(flat))))
        if distributed.is_main():
            self._own = dict(parts)  # of all processes that there were, whose files may not be written again
        return parts

    def mine(self, name: str) -> dict[str, Tensor]:
        """A part that this process has kept earlier; empty if there is none."""
        return _by_part(self._read(self._path)).get(name, {}) if self._path is not None else {}

    @property
    def due(self) -> bool:
        """Whether the last time that something was written is a while ago."""
        return time.monotonic() - self._saved > self.SECONDS

    def put(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep a part that this process has finished."""
        self._own[name] = {key: tensor.detach().cpu().clone() for key, tensor in tensors.items()}
        self._unsaved = True
        if self.due:
            self.save()

    def clear(self) -> None:
        """Forget them: the exam is complete, and its result is kept."""
        if self._folder is not None and distributed.is_main():
            shutil.rmtree(self._folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # other exams may have parts
                self._folder.parent.rmdir()

    def clear_own(self) -> None:
        """Forget them if they are of this key; those of another one are not complete."""
        if self.kept_key() == self._facts["key"]:
            self.clear()

    def kept_key(self) -> str | None:
        """The key of what is there, whatever it is; None without a whole file. For the main process."""
        files = sorted(self._folder.glob("*.safetensors")) if self._folder is not None else ()
        return next((facts["key"] for path in files if "key" in (facts := read_tensors(path)[1])), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.save()

    def save(self) -> None:
        """Write what is not yet written."""
        if self._path is None or not self._unsaved:
            return
        flat = {f"{name}{SEPARATOR}{key}": t for name, part in self._own.items() for key, t in part.items()}
        write_tensors(self._path, flat, self._facts)
        self._unsaved, self._saved = False, time.monotonic()

    def _read(self, path: Path) -> dict[str, Tensor]:
        tensors, facts = read_tensors(path)
        return tensors if facts.get("key") == self._facts["key"] else {}


def _by_part(flat: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    parts: dict[str, dict[str, Tensor]] = {}
    for path, tensor in flat.items():
        part, name = path.rsplit(SEPARATOR, 1)
        parts.setdefault(part, {})[name] = tensor
    return parts


class ResumablePass:
    """The state of a pass over the data; every process makes one before the images are opened.

    Attributes:
        done: Batches that this process has seen before; they are to be skipped.
    """

    def __init__(self, parts: PartialResults | None, batch_size: int) -> None:
        self._parts = parts or PartialResults()
        rank, world = distributed.rank(), distributed.world_size()
        self._name = f"process {rank} of {world}, batches of {batch_size}"
        self._kept = self._parts.mine(self._name)
        self.done = int(self._kept.get("batches", 0))

    def restore(self, numbers: Mapping[str, Sums]) -> None:
        """Put back what was collected from the batches that are skipped."""
        for name, number in numbers.items():
            if self.done:
                number.load_state({state: self._kept[f"{name}/{state}"] for state in number.state()})
        self._kept = {}

    def keep(self, numbers: Mapping[str, Sums]) -> None:
        """One more batch is in `numbers`, and may be the last: a copy is taken, as the next one may stay half done."""
        self.done += 1
        self._put(numbers)

    def count(self, numbers: Mapping[str, Sums]) -> None:
        """One more batch is in `numbers`, of which `save` is told before they are left alone; no copy each time."""
        self.done += 1
        if self._parts.due:
            self._put(numbers)

    def save(self, numbers: Mapping[str, Sums]) -> None:
        """Write down what all batches so far have given."""
        self._put(numbers)
        self._parts.save()

    def _put(self, numbers: Mapping[str, Sums]) -> None:
        states = {f"{name}/{state}": t for name, own in numbers.items() for state, t in own.state().items()}
        self._parts.put(self._name, {"batches": torch.tensor(self.done), **states})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self._parts.save()


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> None:
    """Put tensors and facts into a file, atomically and with a checksum."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    atomic_write(path, save(stored, {**facts, CHECKSUM: _checksum(stored, facts)}))


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
