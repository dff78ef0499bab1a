"""What an exam under way has collected so far, on disk, so that an interrupted one goes on where it stopped.

`Partial` keeps the sums of the one pass, `Parts` the finished parts of an exam with passes of its own: a point of a
landscape, a corruption at one severity, or (`ResumablePass`) what one process has summed up over its first batches,
where every condition of an exam is measured on a batch before the next batch is read. All are used only by an exam of
the same key: the same weights, images and options; sums over batches also want the same batch size and number of
processes. Each process writes a file of its own, which is whole or not there.
"""

import contextlib
import hashlib
import json
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from vitscope.core import distributed
from vitscope.engine.exam import Accumulator, OwnNumbers
from vitscope.results.atomic import atomic_write

SEPARATOR = " / "  # between the name of a part and of a tensor in it
CHECKSUM = "sha256"


class Partial:
    """The state of the one pass, in the run folder `folder`; without a folder nothing is kept."""

    SECONDS = 20.0  # of work that may be lost

    def __init__(self, folder: Path | None, keys: Mapping[str, str | None], batch_size: int) -> None:
        world = distributed.world_size()
        self._folder = folder / "partial" if folder is not None else None
        own = f"{distributed.rank()}-of-{world}.safetensors"
        self._path = self._folder / own if self._folder is not None and None not in keys.values() else None
        self._identity = json.dumps([sorted(keys.items()), batch_size, world])
        self._saved = time.monotonic()

    def batches_done(self) -> int:
        """How many batches of this process have been seen; each process goes on from its own place."""
        metadata = read_tensors(self._path)[1]
        return int(metadata["batches"]) if metadata.get("identity") == self._identity else 0

    def load(self, accumulators: Sequence[Accumulator]) -> None:
        """Put back what was collected from those batches."""
        tensors, _ = read_tensors(self._path)
        for one in accumulators:
            one.load_state({name: tensors[f"{one.result.exam}.{name}"] for name in one.state()})

    def save(self, accumulators: Sequence[Accumulator], batches: int, force: bool = False) -> None:
        """Keep what was collected from the first `batches` batches, if the last time is a while ago."""
        if self._path is None or not (force or time.monotonic() - self._saved > self.SECONDS):
            return
        tensors = {f"{one.result.exam}.{name}": t for one in accumulators for name, t in one.state().items()}
        write_tensors(self._path, tensors, {"identity": self._identity, "batches": str(batches)})
        self._saved = time.monotonic()

    def clear(self) -> None:
        """Forget the pass, and others that were given up: it is complete, and its results are kept."""
        if self._folder is not None and distributed.is_main():
            shutil.rmtree(self._folder, ignore_errors=True)


class Parts:
    """The parts of the exam `exam` in the run folder `folder`; without a folder or a key nothing is kept."""

    SECONDS = 5.0  # of work that may be lost

    def __init__(self, folder: Path | None = None, exam: str = "", key: str | None = None) -> None:
        self._folder = folder / "parts" / exam if folder is not None and key is not None else None
        self._facts = {"key": key or ""}
        self._own: dict[str, dict[str, Tensor]] = {}
        self._unsaved = False
        self._saved = time.monotonic()

    def finished(self, names: Iterable[str]) -> dict[str, dict[str, Tensor]]:
        """Those of the parts that were finished earlier; every process calls this and gets the same answer.

        The main process reads the files of all, and tells the others.
        """
        wanted = set(names)
        flat: dict[str, Tensor] = {}
        if distributed.is_main() and self._folder is not None:
            for path in sorted(self._folder.glob("*.safetensors")):
                tensors, facts = read_tensors(path)
                if facts.get("key") == self._facts["key"]:
                    flat |= {name: t for name, t in tensors.items() if name.rsplit(SEPARATOR, 1)[0] in wanted}
        parts: dict[str, dict[str, Tensor]] = {}
        for path_in_file, tensor in load(distributed.broadcast_bytes(save(flat))).items():
            part, name = path_in_file.rsplit(SEPARATOR, 1)
            parts.setdefault(part, {})[name] = tensor
        if distributed.is_main():
            self._own = dict(parts)  # of all processes that there were, whose files may not be written again
        return parts

    def put(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep a part that this process has finished."""
        self._own[name] = {key: tensor.detach().cpu().clone() for key, tensor in tensors.items()}
        self._unsaved = True
        if time.monotonic() - self._saved > self.SECONDS:
            self._save()

    def clear(self) -> None:
        """Forget them: the exam is complete, and its result is kept."""
        if self._folder is not None and distributed.is_main():
            shutil.rmtree(self._folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # other exams may have parts
                self._folder.parent.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self._save()

    def _save(self) -> None:
        if self._folder is None or not self._unsaved:
            return
        flat = {f"{name}{SEPARATOR}{key}": t for name, part in self._own.items() for key, t in part.items()}
        write_tensors(self._folder / f"{distributed.rank()}.safetensors", flat, self._facts)
        self._unsaved, self._saved = False, time.monotonic()


class ResumablePass:
    """The state of a pass of its own; every process makes one before the images are opened.

    Attributes:
        done: Batches that this process has seen before; they are to be skipped.
    """

    def __init__(self, parts: Parts | None, batch_size: int) -> None:
        self._parts = parts or Parts()
        world = distributed.world_size()
        names = [f"process {rank} of {world}, batches of {batch_size}" for rank in range(world)]
        self._name = names[distributed.rank()]
        self._kept = self._parts.finished(names).get(self._name, {})
        self.done = int(self._kept.get("batches", 0))

    def restore(self, numbers: Mapping[str, OwnNumbers]) -> None:
        """Put back what was collected from the batches that are skipped."""
        for name, number in numbers.items():
            if self.done:
                number.load_state({state: self._kept[f"{name}/{state}"] for state in number.state()})

    def keep(self, numbers: Mapping[str, OwnNumbers]) -> None:
        """One more batch is in `numbers`."""
        self.done += 1
        states = {f"{name}/{state}": t for name, own in numbers.items() for state, t in own.state().items()}
        self._parts.put(self._name, {"batches": torch.tensor(self.done), **states})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self._parts.__exit__()


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
