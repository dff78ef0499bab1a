"""What an operating system says about files, in words a user can act on.

Read a YAML file of `name: value` lines; what cannot be read, and lines that say the same twice, are refused.
"""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

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
    if error.errno not in _WORDS or (
        error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT)
    ):
        return None
    if error.filename is None:
        return f"cannot write: {_WORDS[error.errno]}"
    path = error.filename if isinstance(error.filename, int) else os.fsdecode(error.filename)
    where = str(path) if len(str(path)) <= 200 else f"{str(path)[:80]}... ({len(str(path))} characters)"
    return f"cannot use {where}: {_WORDS[error.errno]}"


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


_MOST_BYTES = 1 << 20  # a file of options is written by hand


class _Loader(yaml.SafeLoader):
    """YAML without anything but plain values, and with every name once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            try:
                twice = name in seen
            except TypeError:
                raise yaml.constructor.ConstructorError(
                    None, None, "a name is no plain word", key.start_mark
                ) from None
            if twice:
                raise yaml.constructor.ConstructorError(
                    None, None, f"'{name}' stands there twice", key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep)


def read_yaml(path: str | os.PathLike[str], what: str, line: str) -> dict[str, Any]:
    """The names and values of a file; `what` names it in messages, `line` shows what a line looks like."""
    source = Path(path)
    try:
        if source.exists() and not source.is_file():
            raise BadArgument(f"cannot read {what}: it is no plain file; write lines such as '{line}'")
        if source.stat().st_size > _MOST_BYTES:
            raise BadArgument(f"cannot read {what}: it is larger than 1 MB; write lines such as '{line}'")
        content = _Loader(source.read_text(encoding="utf-8")).get_single_data()
    except OSError as error:
        said = _WORDS.get(error.errno or 0, error.strerror)
        raise BadArgument(f"cannot read {what}: {said}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        if isinstance(error, BadArgument):
            raise
        raise BadArgument(
            f"cannot read {what}: it is no YAML ({_place(error)}); write lines such as '{line}'"
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        kind = "names that are no text" if isinstance(content, dict) else f"a {type(content).__name__}"
        raise BadArgument(f"{what} should hold '{line}' lines, not {kind}")
    return content


def _place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return (
            "not text in UTF-8"
            if isinstance(error, UnicodeDecodeError)
            else "too deeply nested or not a value"
        )
    said = getattr(error, "problem", None) or "cannot be understood"
    return f"line {mark.line + 1}, column {mark.column + 1}: {said}"
