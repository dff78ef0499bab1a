"""Whether something can be written, known before the work for it begins; nothing is left behind."""

import errno
import os
import tempfile
from pathlib import Path

from vitscope.core.arguments.files import files_in_words
from vitscope.core.errors import VitscopeError
from vitscope.results.atomic import is_special


def check_page(path: str | os.PathLike[str]) -> None:
    """Refuse a page that cannot be written, or in whose place is something else than a page."""
    check_file(path, "<!doctype html")


def check_file(path: str | os.PathLike[str], begins: str = "") -> None:
    """Refuse a file that cannot be written, or in whose place is one that does not begin so."""
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
            if target.is_file():
                _check_replaced(target, begins)


def _check_replaced(target: Path, begins: str) -> None:
    with open(target, "rb") as file:
        found = file.read(len(begins.encode())).decode(errors="replace")
    if found and found.lower() != begins.lower():
        raise VitscopeError(
            f"{target} is there and is something else, which is not overwritten; give another name, or remove it"
        )


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
    except FileNotFoundError as error:  # it is there, and takes no files
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there)) from error
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(there)) from error  # not the name that was tried
