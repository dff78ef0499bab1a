"""A lock on a folder that cannot outlive the process that holds it."""

import os
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system: runs are then not guarded against two writers
    fcntl = None  # type: ignore[assignment]


class FolderLock:
    """Exclusive among processes; given back by `release`, or by the system when the process ends."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".lock"
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Take the lock; False if another process has it."""
        if fcntl is None:
            return True
        handle = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o666)
        for _ in range(5):  # somebody may be looking whether it is held, which takes a moment
            if _try(handle, fcntl.LOCK_EX):
                self._handle = handle
                return True
            time.sleep(0.05)
        os.close(handle)
        return False

    def release(self) -> None:
        """Give the lock back; its file stays, because removing it could let two processes hold it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def is_held(self) -> bool:
        """Whether some process holds it now."""
        if fcntl is None or not self._path.exists():
            return False
        handle = os.open(self._path, os.O_RDONLY)
        try:
            return not _try(handle, fcntl.LOCK_SH)
        finally:
            os.close(handle)


def _try(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: there is nothing to guard with
        return True
    return True
