"""Room for a training on the disk: looked for before it begins, and missed without losing what is there.

    needed = 3 state + (n + 1) weights,    state = weights + 2 trained parameters + extra

A file is replaced by writing the new one beside it, and the state before the last is kept: hence three states. n is
the number of kept checkpoints, and two moments per parameter are what the usual optimisers hold.
"""

import errno
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor, nn

from vitscope.core.arguments.files import reason
from vitscope.core.errors import VitscopeError
from vitscope.results.plain_files import probe

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class CannotWrite(VitscopeError):
    """The run folder cannot be written to: full, or not allowed."""


def bytes_needed(model: nn.Module, extra: Mapping[str, Tensor], checkpoints: int) -> int:
    """About how much a training writes into its folder, at the moment when it holds most."""
    weights = sum(map(_size, model.state_dict().values()))
    moments = 2 * sum(_size(parameter) for parameter in model.parameters() if parameter.requires_grad)
    state = weights + moments + sum(map(_size, extra.values()))
    return 3 * state + (checkpoints + 1) * weights


def check_room(folder: Path, needed: int) -> None:
    """Refuse to begin where there is not so much room, counting what the folder holds already."""
    held = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    there = folder
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    if needed - held > free:
        raise CannotWrite(
            f"{folder} would need {_readable(needed - held)} and its disk has {_readable(free)} free; free some, "
            "keep fewer with a larger --checkpoint-every, or give an --out on another disk"
        )


@contextmanager
def writing(folder: Path, kept: str) -> Iterator[None]:
    """Turn a failure to write into an error that says what of the training is safe (`kept`) and how to go on."""
    try:
        yield
    except OSError as error:
        full = error.errno in _FULL
        why = "the disk (or your quota) is full" if full else f"it cannot be written ({error.strerror})"
        advice = "make room" if full else "make it writable"
        raise CannotWrite(
            f"{folder}: {why}; {kept}. Either {advice} and give the same command with --resume, "
            "or give another --out"
        ) from error


def check_writable(folder: Path) -> None:
    """Write a little there, so that what is not allowed is known before the first epoch."""
    try:
        probe(folder, size=4096)
    except OSError as error:
        raise CannotWrite(
            f"{folder}: it cannot be written ({reason(error)}); nothing was trained yet. Make it writable, or give "
            "another --out"
        ) from error


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _readable(n: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"
