"""A pass that was interrupted: what its accumulators had collected, so that it goes on where it stopped.

Every process writes its own share. A state is used only by a pass of the same exams over the same batches: the
same weights, images, options, batch size and number of processes. All others start from the beginning.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from vitscope import distributed
from vitscope.exams.base import Accumulator
from vitscope.results.atomic import atomic_write

SECONDS = 20.0  # of work that may be lost
FOLDER = "partial"


class Partial:
    """The state of a pass under way, in `folder`; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, keys: Mapping[str, str | None], batch_size: int) -> None:
        world = distributed.world_size()
        known = all(key is not None for key in keys.values())
        self._folder = folder / FOLDER if folder is not None else None
        own = f"{distributed.rank()}-of-{world}.safetensors"
        self._path = self._folder / own if self._folder is not None and known else None
        self._identity = json.dumps([sorted(keys.items()), batch_size, world])
        self._saved = time.monotonic()

    def batches_done(self) -> int:
        """How many batches of this process have been seen; each process goes on from its own place."""
        metadata = self._read()[1]
        return int(metadata["batches"]) if metadata.get("identity") == self._identity else 0

    def load(self, accumulators: Sequence[Accumulator]) -> None:
        """Put back what was collected from those batches."""
        tensors, _ = self._read()
        for accumulator in accumulators:
            prefix = f"{accumulator.result.exam}."
            accumulator.load_partial_state(
                {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
            )

    def save(self, accumulators: Sequence[Accumulator], batches: int, force: bool = False) -> None:
        """Keep what was collected from the first `batches` batches, if the last time is a while ago."""
        if self._path is None or not (force or time.monotonic() - self._saved > SECONDS):
            return
        tensors = {
            f"{accumulator.result.exam}.{name}": tensor.cpu().contiguous()
            for accumulator in accumulators
            for name, tensor in accumulator.partial_state().items()
        }
        metadata = {"identity": self._identity, "batches": str(batches)}
        metadata["sha256"] = _checksum(tensors, metadata)
        atomic_write(self._path, save(tensors, metadata))
        self._saved = time.monotonic()

    def clear(self) -> None:
        """Forget the pass, and others that were given up: it is complete, and its results are kept."""
        if self._folder is not None and distributed.is_main():
            shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        if self._path is None or not self._path.exists():
            return {}, {}
        try:
            with safe_open(self._path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                metadata = file.metadata() or {}
        except (SafetensorError, OSError):
            return {}, {}
        whole = metadata.get("sha256") == _checksum(tensors, metadata)
        return (tensors, metadata) if whole else ({}, {})  # damaged: as if there were none


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    content = {name: text for name, text in metadata.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
