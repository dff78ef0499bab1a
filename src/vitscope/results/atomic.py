"""Files that are either complete or not there, and a lock on a folder that one process writes.

A file is written beside its place, as `.NAME.xxxxxxxx.part`, and renamed. While a process writes it holds a lock on
that file, which dies with the process: so the next writer of the same place can tell what a dead one has left behind,
and removes it. The lock on a run folder cannot outlive its process either.
"""

import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system: nothing is locked, and what dead writers leave behind stays
    fcntl = None  # type: ignore[assignment]


LOCK = ".lock"
_handles: set[int] = set()  # of the locks on folders that this process holds


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path beside `path`; what is written there becomes `path` unless an exception leaves.

    A special file (`/dev/null`, a pipe) is not replaced: what was written is copied into it.
    """
    target = Path(path)
    if is_special(target):
        with tempfile.TemporaryDirectory(prefix="vitscope-") as folder:
            yield Path(folder, target.name)
            with open(Path(folder, target.name), "rb") as written, open(target, "wb") as file:
                shutil.copyfileobj(written, file)
        return
    with _folder_of(target), part_of(target) as temporary:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
        sync_folder(target.parent)


def atomic_write(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write `content` to `path`: a reader, or a crash, sees the old file or the new one, never a part."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def _folder_of(target: Path) -> Iterator[None]:
    """The folder of `target`; if nothing comes to lie in it, because the disk is full, it is not left behind."""
    made = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with suppress(OSError):  # somebody else has put something there
            for folder in made:
                folder.rmdir()
        raise


@contextmanager
def part_of(target: Path) -> Iterator[Path]:
    """An empty file beside `target` to write into, removed afterwards if it is still there.

    It is known to be in use until then; those that dead writers of the same target have left are removed.
    """
    _remove_abandoned(target)
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        if _claim(handle, temporary):
            break
        os.close(handle)  # somebody took it for an abandoned one before it was locked
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        os.close(handle)


def is_special(path: Path) -> bool:
    """Whether there is something that is neither a file nor a folder: a device, a pipe, a socket."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk, so that a renaming outlives a loss of power."""
    with suppress(OSError):  # not every system lets a folder be opened, or synchronised
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _claim(handle: int, path: Path) -> bool:
    """Lock a new file; False if it was removed meanwhile."""
    if fcntl is None:
        return True
    with suppress(OSError):  # a file system without locks: nobody removes what cannot be locked
        fcntl.flock(handle, fcntl.LOCK_EX)
    return _is_at(handle, path)


def _is_at(handle: int, path: Path) -> bool:
    """Whether nobody has removed the file since it was opened."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _remove_abandoned(target: Path) -> None:
    """Remove the parts of this target that no living process holds."""
    if fcntl is None:
        return
    with suppress(OSError):
        for name in os.listdir(target.parent):
            if name.startswith(f".{target.name}.") and name.endswith(".part"):
                remove_if_free(target.with_name(name))


def remove_all_abandoned(folder: Path) -> None:
    """Remove what dead writers have left anywhere below a folder: a file that is not written again would keep it."""
    for here, _, files in os.walk(folder):
        for name in files:
            if name.startswith(".") and name.endswith(".part"):
                remove_if_free(Path(here, name))


def remove_if_free(path: Path) -> None:
    """Remove a file that no living process has locked."""
    if fcntl is None:
        return
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held: BlockingIOError
            path.unlink()
        finally:
            os.close(handle)


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


def _try(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: there is nothing to guard with
        pass
    return True
