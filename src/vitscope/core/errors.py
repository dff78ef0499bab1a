"""Errors that a user can act on: what was seen, what was expected, what to type next."""

import difflib
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

speaker: ContextVar[str | None] = ContextVar("speaker", default=None)
"""The exam with passes of its own that is under way: whose options a warning is about."""


class VitscopeError(Exception):
    """Base of every error vitscope raises on purpose; the command line prints it without a traceback.

    Attributes:
        exam: The exam that it is raised by, if it is one with passes of its own: whose options the message is about.
    """

    exam: str | None = None

    def __str__(self) -> str:
        return in_one_line(super().__str__())


def in_one_line(text: str) -> str:
    """Names of files may hold line breaks and what steers a terminal: these are written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class UnsupportedModel(VitscopeError):
    """The model's forward pass could not be understood; the message names what was not."""


class PathChanged(VitscopeError):
    """A forward pass took another path than the one anatomy watched."""


class NotFinite(VitscopeError):
    """Outputs, features or weights of a model are NaN or infinite; the message says where it begins."""


class BadData(VitscopeError):
    """The images or labels given cannot be used as they are."""


class BadResult(VitscopeError):
    """A saved result or run is damaged, unfinished, or of a newer schema."""


class BadArgument(VitscopeError, ValueError, TypeError):
    """An argument, option or line of a file that cannot be used; the message says what would do."""


class FileTrouble(VitscopeError, OSError):
    """The operating system refuses a file or folder; the message says which, why, and what to do."""

    def __str__(self) -> str:
        return in_one_line(str(self.args[-1])) if self.args else ""


_NO_MEMORY = (
    "can't allocate memory",
    "Cannot allocate memory",
    "out of memory",
    "bad_alloc",
    "can't start new thread",
    "could not create a primitive",  # oneDNN, for a convolution
)


def memory_in_words(error: BaseException) -> str | None:
    """A sentence for an error that means that memory ran out, whoever noticed it; None if it means something else."""
    said = str(error)
    if not (isinstance(error, MemoryError) or any(words in said for words in _NO_MEMORY)):
        return None
    wanted = re.search(r"(?:allocate|allocating) ([0-9.]+ ?[KMGT]?i?[Bb]\w*)", said)
    much = f" ({wanted[1]} more were asked for)" if wanted else ""
    return (
        f"memory ran out{much}; take a smaller batch_size, or a machine with more memory; what was finished is kept: "
        "the same command goes on with it"
    )


@contextmanager
def said_by(exam: str) -> Iterator[None]:
    """Inside, errors and warnings are about the options of this exam."""
    before = speaker.set(exam)
    try:
        yield
    except VitscopeError as error:
        error.exam = exam
        raise
    finally:
        speaker.reset(before)


def alike(word: str, known: Iterable[str], most: int = 1, at_least: float = 0.65) -> list[str]:
    """The known words that a misspelt one may be meant for, nearest first; `split` is not meant by `limit` (0.6)."""
    return difflib.get_close_matches(word, list(known), most, at_least)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest of the known words as a question; all of them if none is near."""
    known = list(known)
    near = alike(word, known, 2)
    return f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(known)}"


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and point at the line of the user's that led here: the one that called into vitscope."""
    frame = place = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "vitscope" and frame.f_back is not None:
            place = frame.f_back
        frame = frame.f_back  # type: ignore[assignment]
    registry = place.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(
        in_one_line(message), category, place.f_code.co_filename, place.f_lineno, registry=registry
    )
