"""A folder as it was before a command, so that a command which is refused can leave it that way.

A file has changed if its inode, size or time has: files are written to the side and moved into place.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from vitscope.results.atomic import atomic_write

Facts = dict[str, tuple[int, int, int]]  # inode, size and time of every file, by its path


class _Kept(NamedTuple):
    content: bytes
    times: tuple[int, int]


class FolderRollback:
    """Remembers what a folder holds, and undoes what a command has written there.

    Args:
        folder: Where a command is about to write.
        own: Names of files in it that every command writes, which are put back.
        new: Names of such files that the command has made already, which are taken away.
        made: Folders that were made for it, the innermost first.
    """

    def __init__(
        self, folder: Path, own: Sequence[str], new: Sequence[str] = (), made: Sequence[Path] = ()
    ) -> None:
        self._folder, self._made = folder, made
        self._own = {name: None if name in new else _read(folder / name) for name in (*own, *new)}
        self._others = self._seen()

    def put_back(self) -> bool:
        """Undo what every command writes; False, and nothing is undone, if it has written anything else."""
        if self._seen() != self._others:
            return False
        with contextlib.suppress(OSError):  # others may have begun to use them
            for name, kept in self._own.items():
                if kept is None:
                    (self._folder / name).unlink(missing_ok=True)
                else:
                    atomic_write(self._folder / name, kept.content)
                    os.utime(self._folder / name, ns=kept.times)
            for folder in self._made:
                folder.rmdir()
        return True

    def _seen(self) -> Facts:
        own = {self._folder / name for name in self._own}
        paths = (Path(top) / name for top, _, names in os.walk(self._folder) for name in names)
        facts = {str(path): os.lstat(path) for path in paths if path not in own}
        return {path: (one.st_ino, one.st_size, one.st_mtime_ns) for path, one in facts.items()}


def _read(path: Path) -> _Kept | None:
    if not path.is_file():
        return None
    status = path.stat()
    return _Kept(path.read_bytes(), (status.st_atime_ns, status.st_mtime_ns))
