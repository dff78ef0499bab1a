"""A lock on a folder that cannot outlive the process that holds it."""

import os
import time
from pathlib import Path

from vitscope.results.plain_files import LOCK

try:
    import fcntl
except ImportError:  # not a POSIX system: runs are then not guarded against two writers
    fcntl = None  # type: ignore[assignment]


_handles: set[int] = set()  # of the locks that this process holds


def _let_go() -> None:
    """In a process that was just forked: a lock stays as long as any process has its descriptor."""
    for handle in _handles:
        os.close(handle)
    _handles.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


class FolderLock:
    """Exclusive among processes; given back by `release`, or by the system when the process ends.

    Processes that are forked from the holder have no part in it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK
        self._handle: int | None = None
        self._holder = 0  # the process

    def acquire(self) -> bool:
        """Take the lock; False if another process has it."""
        if fcntl is None:
            return True
        for _ in range(5):  # somebody may be looking whether it is held, which takes a moment
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o666)
            if _try(handle, fcntl.LOCK_EX) and _is_at(handle, self._path):
                self._handle = handle
                self._holder = os.getpid()
                _handles.add(handle)
                return True
            os.close(handle)
            time.sleep(0.05)
        return False

    def release(self) -> None:
        """Give the lock back; its file stays."""
        if self._handle is not None and self._holder == os.getpid():
            _handles.discard(self._handle)
            os.close(self._handle)
        self._handle = None

    def is_held(self) -> bool:
        """Whether some process holds it now."""
        if fcntl is None or not self._path.exists():
            return False
        handle = os.open(self._path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # not to wait for a pipe
        try:
            return not _try(handle, fcntl.LOCK_SH)
        finally:
            os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    """Whether the folder has not been removed by whoever held the lock before."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _try(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: there is nothing to guard with
        return True
    return True
