"""Files and folders of runs, which may come from a stranger: what is read, what is written, and where it goes.

Only plain files are read, and not without end. Nothing is written into a pipe, or through a link that leads out: a
link to a file is harmless, since writing replaces it (see `atomic`), but a folder behind a link would be written into.
Whether something can be written is known before the work for it begins; nothing is left behind.
"""

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from vitscope.core.arguments.files import files_in_words
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.results.atomic import LOCK, is_special

MOST_BYTES = 64 << 20
_LONGEST = 120  # characters of a name that is made of others
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
        raise BadResult(f"{path} is {kind}, not a file; remove it and repeat the command")
    if most is not None and status.st_size > most:
        raise BadResult(f"{path} has {status.st_size} bytes; at most {most} are read")


def refuse_outside_links(folder: Path) -> None:
    """Refuse a folder in which writing would leave it, through a link or into a pipe."""
    inside = folder.resolve()
    for here, folders, files in os.walk(folder):
        for path in (Path(here, name) for name in (*folders, *files)):
            if not path.is_symlink():
                if is_special(path):  # writing into a pipe waits for whoever reads it
                    check_plain([path])
                continue
            target = Path(os.path.realpath(path))
            out = target != inside and inside not in target.parents
            if out and (path.name == LOCK or not target.is_file()):
                raise BadResult(
                    f"{path} is a link that leads out of the run folder, to {target}; nothing is written through it: "
                    "remove it, or give another folder"
                )


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
            return
        probe(target.parent)
        if target.is_file():
            with open(target, "rb") as file:
                found = file.read(len(begins.encode())).decode(errors="replace")
            if found and found.lower() != begins.lower():
                raise VitscopeError(
                    f"{target} is there and is something else, which is not overwritten; "
                    "give another name, or remove it"
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


def display_name(model: str | os.PathLike[str]) -> str:
    """What a model goes by that is given by its name or its run folder: the name, or that of the folder."""
    return Path(model).resolve().name if Path(model).is_dir() else os.fspath(model)


def file_name(text: str) -> str:
    """A text as the name of a file; of a long one the end, after what tells it from others."""
    plain = "".join(c if c.isalnum() or c in "._-" else "_" for c in text).strip(".") or "_"
    if len(plain.encode()) <= _LONGEST:
        return plain
    told = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{told}-{plain.encode()[-_LONGEST:].decode(errors='ignore')}"


def default_folder(verb: str, data: str, split: str = "test", models: Sequence[str] = ()) -> Path:
    """Where a command puts what it finds if nobody says where: `runs/VERB/DATA`, and a folder in it for several models.

    What was found on other data, or about other models together, is in another folder.
    """
    folder = Path("runs") / verb / file_name(data if split == "test" else f"{data}-{split}")
    return folder / file_name("-".join(map(display_name, models))) if models else folder


def refuse_same(models: Sequence[str | os.PathLike[str]]) -> None:
    """Refuse a model, or a run folder, that is named twice."""
    places: set[str] = set()
    for model in [os.fspath(one) for one in models]:
        place = str(Path(model).resolve()) if Path(model).is_dir() else model
        if place in places:
            raise VitscopeError(f"{model} is named twice; name each model once")
        places.add(place)


def run_folders(models: Sequence[str], out: Path | None, default: Path) -> dict[str, Path]:
    """The run folder of each model, once each.

    `out` is the folder itself of a single model, and the folder above those of several; without it they go below
    `default`. Models of the same name get numbers.
    """
    folders: dict[str, Path] = {}
    distinct = list(dict.fromkeys(models))
    if len(distinct) == 1 and out is not None:
        return {distinct[0]: out}
    for model in distinct:
        plain = file_name(display_name(model))
        taken = {path.name for path in folders.values()}
        unique = next(n for n in (plain, *(f"{plain}-{i}" for i in range(2, 10_000))) if n not in taken)
        folders[model] = (out or default) / unique
    return folders
