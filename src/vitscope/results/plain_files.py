"""Files of runs, which may be anything: only plain files are read, and not without end."""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from vitscope.core.errors import BadResult

MOST_BYTES = 64 << 20
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def is_shortage(error: BaseException | None) -> bool:
    """Whether the server, and not the file, is in trouble: it has no descriptors left."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _SHORTAGES:
            return True
        error = error.__cause__
    return False


def read_plain(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file; opening does not wait for whoever writes into a pipe.

    Raises:
        BadResult: It is something else than a plain file, or too large.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        _check(path, os.fstat(handle), most)
        return file.read(most + 1)[:most]


def check_plain(paths: Iterable[Path], most: int | None = None) -> None:
    """Refuse paths that somebody else is going to read if one is no plain file, or too large."""
    for path in paths:
        _check(path, path.stat(), most)


def _check(path: Path, status: os.stat_result, most: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise BadResult(f"{path.name} is {kind}, not a file; remove it and repeat the command")
    if most is not None and status.st_size > most:
        raise BadResult(f"{path.name} has {status.st_size} bytes; at most {most} are read")
