"""A pass that was interrupted: what its accumulators had collected, so that it goes on where it stopped.

Every process writes its own share. A state is used only by a pass of the same exams over the same batches: the
same weights, images, options, batch size and number of processes. All others start from the beginning.
"""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from vitscope.core import distributed
from vitscope.engine.exam import Accumulator
from vitscope.engine.finished_parts import read_tensors, write_tensors

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
        metadata = read_tensors(self._path)[1]
        return int(metadata["batches"]) if metadata.get("identity") == self._identity else 0

    def load(self, accumulators: Sequence[Accumulator]) -> None:
        """Put back what was collected from those batches."""
        tensors, _ = read_tensors(self._path)
        for accumulator in accumulators:
            prefix = f"{accumulator.result.exam}."
            accumulator.load_state(
                {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
            )

    def save(self, accumulators: Sequence[Accumulator], batches: int, force: bool = False) -> None:
        """Keep what was collected from the first `batches` batches, if the last time is a while ago."""
        if self._path is None or not (force or time.monotonic() - self._saved > SECONDS):
            return
        tensors = {
            f"{accumulator.result.exam}.{name}": tensor
            for accumulator in accumulators
            for name, tensor in accumulator.state().items()
        }
        write_tensors(self._path, tensors, {"identity": self._identity, "batches": str(batches)})
        self._saved = time.monotonic()

    def clear(self) -> None:
        """Forget the pass, and others that were given up: it is complete, and its results are kept."""
        if self._folder is not None and distributed.is_main():
            shutil.rmtree(self._folder, ignore_errors=True)
