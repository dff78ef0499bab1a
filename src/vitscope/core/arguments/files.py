"""What words and files say: a value by its type, from the command line or from a YAML file of `name: value` lines.

What an operating system says about files comes in words that a user can act on. YAML files are read in `yaml_files`.
"""

import errno
import json
import os
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from vitscope.core.arguments.checking import check, problem_with_path, take
from vitscope.core.arguments.kinds import alternatives, base_of, describe, is_path, is_several, refusal
from vitscope.core.errors import BadArgument, FileTrouble, VitscopeError

_WORDS = {
    errno.ENOENT: "it does not exist; check how it is spelt",
    errno.EACCES: "this user may not read or write it; change its permissions, or choose another place",
    errno.EPERM: "this user may not change it; change its permissions, or choose another place",
    errno.EROFS: "it lies on a disk that can only be read; choose another place",
    errno.ENOSPC: "the disk is full; free some room, or choose a place on another disk",
    errno.EDQUOT: "the quota of this user is used up; free some room, or choose another place",
    errno.ELOOP: "its links lead around in a circle; remove them",
    errno.ENAMETOOLONG: "no file system takes a name of this length; choose a shorter one",
    errno.ENOTDIR: "a part of the path is a file, not a folder; check how it is spelt",
    errno.EISDIR: "it is a folder, and a file was expected",
    errno.EEXIST: "it exists already; choose another name, or remove it",
    errno.EMFILE: "this process has too many files open; raise the limit with: ulimit -n 4096",
    errno.ENFILE: "the machine has too many files open; close some programs",
    errno.EIO: "the disk does not answer as it should; try again, and look after the disk",
    errno.ENXIO: "it is a special file that nobody serves; choose a plain file",
    errno.EINVAL: "no file can have this name; choose another",
    errno.EILSEQ: "no file can have this name; choose another",
    errno.ENODEV: "it is a device that cannot be used so; choose a plain file",
    errno.ENOTEMPTY: "the folder is not empty; choose another, or empty it",
    errno.EFBIG: "the file would be larger than allowed here; raise the limit (ulimit -f), or choose another place",
}


@contextmanager
def files_in_words() -> Iterator[None]:
    """Inside, what the operating system refuses is said as a `FileTrouble`."""
    try:
        yield
    except VitscopeError:
        raise
    except OSError as error:
        said = in_words(error)
        if said is None:
            raise
        raise FileTrouble(error.errno, said) from error
    except ValueError as error:
        if "null byte" not in str(error) and "null character" not in str(error):
            raise
        raise FileTrouble(errno.EINVAL, "a path holds a zero byte; no file can have this name") from error


def in_words(error: OSError) -> str | None:
    """A sentence for the error, or None if it is not about a file."""
    if error.errno not in _WORDS:
        return None
    if error.filename is None:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return f"cannot write: {_WORDS[error.errno]}" if full else None
    path = error.filename if isinstance(error.filename, int) else os.fsdecode(error.filename)
    where = str(path) if len(str(path)) <= 200 else f"{str(path)[:80]}... ({len(str(path))} characters)"
    return f"cannot use {where}: {_WORDS[error.errno]}"


def cannot_read(error: OSError) -> str:
    """Why a file that was named cannot be read."""
    return _WORDS.get(error.errno or 0, str(error.strerror))


def reason(error: BaseException) -> str:
    """Why something failed, in one line, to stand in brackets inside a sentence of our own."""
    if isinstance(error, OSError) and error.errno in _WORDS:
        return _WORDS[error.errno].partition(";")[0]
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return f"it is no JSON from line {error.lineno} on"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    said = " ".join(str(error).split())
    if isinstance(error, KeyError):
        return f"it lacks {said}"
    if isinstance(error, TypeError | AttributeError | IndexError):
        return "its parts are not of the expected kinds"
    return said or type(error).__name__


NOTHING = ("None", "none", "null")  # as Python, people and YAML write it


def read(text: str, hint: Any, name: str) -> Any:
    """What a word on the command line says, by the type; else refuses it."""
    kinds = alternatives(hint)
    if text in NOTHING and any(base_of(one) is types.NoneType for one in kinds):
        return None
    for one in kinds:
        taken, problem = take(_from_text(text, one), one)
        if problem is None and taken is not None:
            return taken
    wanted = [one for one in alternatives(hint) if base_of(one) is not types.NoneType]
    problems = [take(_from_text(text, one), one)[1] for one in wanted]
    why = next((problem for problem in problems if problem not in (None, "_")), "_")
    raise BadArgument(refusal(name, text, Union[tuple(wanted)], why))  # noqa: UP007 - known only when this runs


def read_list(text: str, hint: Any, name: str) -> Any:
    """The same where the type may be a list: its values stand between commas, with or without brackets."""
    kinds = [base_of(one) for one in alternatives(hint)]
    lists = [kind for kind in kinds if is_several(kind)]
    nothing_else = all(is_several(kind) or kind is types.NoneType for kind in kinds)
    bracketed = text.startswith("[") and text.endswith("]")
    if not lists or not (bracketed or "," in text or nothing_else) or text in NOTHING:
        return read(text, hint, name)
    inside = text[1:-1].strip() if bracketed else text
    element = (get_args(lists[0]) or (str,))[0]
    values = []
    for piece in inside.split(",") if inside else []:
        try:
            values.append(read(piece.strip(), element, name))
        except BadArgument:
            raise BadArgument(
                f"{name} is '{text}' ('{piece.strip()}' in it); expected {describe(hint)}"
            ) from None
    return check(values, hint, name)


def from_yaml(value: Any, hint: Any, name: str) -> Any:
    """A value of a YAML file, by the type: 1e-3 is a number there too, a path is text."""
    for one in alternatives(hint):
        base = base_of(one)
        if isinstance(value, str) and base in (float, Path):
            taken, problem = take(_from_text(value, one), one)
            if problem is None:
                return taken
        elif isinstance(value, list) and is_several(base):
            element = (get_args(base) or (Any,))[0]
            return tuple(from_yaml(item, element, f"{name}[{i}]") for i, item in enumerate(value))
    return check(value, hint, name)


def _from_text(text: str, hint: Any) -> Any:
    """The plainest reading of a word for a type; the word itself if there is none."""
    base = base_of(hint)
    if base in (int, float):
        try:
            return base(text) if text.strip() == text and "_" not in text else text
        except ValueError:
            return text
    if base is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if is_path(base):
        return Path(text) if problem_with_path(text) is None else text
    if get_origin(base) is Literal:
        return next((word for word in get_args(base) if str(word) == text), text)
    return text
