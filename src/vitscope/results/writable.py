"""Whether something can be written, known before the work for it begins; nothing is left behind."""

import errno
import os
import tempfile
from pathlib import Path

from vitscope.arguments.files import files_in_words
from vitscope.errors import VitscopeError
from vitscope.results.atomic import is_special


def check_file(path: str | os.PathLike[str]) -> None:
    """Refuse a file that cannot be written."""
    target = Path(path)
    if target.is_dir():
        raise VitscopeError(
            f"{target} is a folder; expected a file to write, such as {target / 'report.html'}"
        )
    with files_in_words():
        if is_special(target):
            if not os.access(target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        else:
            probe(target.parent)


def probe(folder: Path, size: int = 1) -> None:
    """Write some bytes into a folder, or where it would be made; raises OSError if that cannot be done."""
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if there.exists() and not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"\0" * size)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(there)) from error  # not the name that was tried
