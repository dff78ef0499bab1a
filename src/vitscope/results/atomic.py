"""Files that are either complete or not there.

A file is written beside its place, as `.NAME.xxxxxxxx.part`, and renamed. While a process writes it holds a lock on
that file, which dies with the process: so the next writer of the same place can tell what a dead one has left behind,
and removes it.
"""

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system: what dead writers leave behind stays
    fcntl = None  # type: ignore[assignment]


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
    target.parent.mkdir(parents=True, exist_ok=True)
    with part_of(target) as temporary:
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
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _remove_abandoned(target: Path) -> None:
    """Remove the parts of this target that no living process holds."""
    if fcntl is None:
        return
    with suppress(OSError):
        beside = [entry.name for entry in os.scandir(target.parent)]
        for name in beside:
            if name.startswith(f".{target.name}.") and name.endswith(".part"):
                _remove_if_free(target.with_name(name))


def _remove_if_free(path: Path) -> None:
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held: BlockingIOError
            path.unlink()
        finally:
            os.close(handle)
