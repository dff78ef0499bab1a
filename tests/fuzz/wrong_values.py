"""Wrong values, generated from the types that vitscope declares: what is not of the type, and what lies outside it."""

import collections.abc
import math
import os
import types
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from hypothesis import strategies as st

from vitscope.core.arguments.files import NOTHING
from vitscope.core.arguments.kinds import alternatives, base_of
from vitscope.core.arguments.vocabulary import Range

_FLOATS = [math.nan, math.inf, -math.inf]
_OBJECTS = [object(), b"bytes", {"a": 1}, {1, 2}, 1j, print, [[]], range(0)]
WORDS = [
    "",
    " ",
    "--",
    "-",
    "abc",
    "nan",
    "-inf",
    "1e999",
    "1_0",
    "0x10",
    "٣",
    "½",
    "1,5",
    "True",
    "null",
    "[1]",
    "a\0b",
]


def wrong_words(hint: Any) -> st.SearchStrategy[str]:
    """Words on a command line that the type does not allow; nothing for types that take any text."""
    numbers = wrong_numbers(hint).map(str)
    kinds = {base_of(one) for one in alternatives(hint)}
    if str in kinds:
        return st.nothing()
    if Path in kinds:
        return st.sampled_from(["", "a\0b", "x" * 300, "y/" * 2100])
    text = st.one_of(st.sampled_from(WORDS), st.text(max_size=12)).filter(lambda word: not _reads(word, hint))
    return st.one_of(numbers, text)


def wrong_objects(hint: Any) -> st.SearchStrategy[Any]:
    """Objects of Python that the type does not allow."""
    candidates = st.one_of(
        wrong_numbers(hint),
        st.sampled_from(_FLOATS),
        st.sampled_from(_OBJECTS),
        st.sampled_from(WORDS),
        st.sampled_from([True, 0, -1, 1.5, 10**40, None, (), [None], Path("x\0y")]),
    )
    return candidates.filter(lambda value: not allowed(value, hint))


def wrong_numbers(hint: Any) -> st.SearchStrategy[Any]:
    """Numbers outside the range of each alternative, just beyond it and far away, and what is not finite."""
    found: list[st.SearchStrategy[Any]] = []
    for one in alternatives(hint):
        base = base_of(one)
        if base not in (int, float):
            continue
        found.append(st.sampled_from(_FLOATS))
        for bounds in get_args(one)[1:]:
            if not isinstance(bounds, Range):
                continue
            if bounds.low is not None:
                found.append(st.integers(max_value=int(bounds.low) - 1))
                if bounds.above:
                    found.append(st.just(base(bounds.low)))
            if bounds.high is not None:
                found.append(st.integers(min_value=int(bounds.high) + 1))
        if base is int:
            found.append(st.floats().filter(lambda value: not value.is_integer()))
    union = st.one_of(found) if found else st.nothing()
    return union.filter(lambda value: not allowed(value, hint))


def allowed(value: Any, hint: Any) -> bool:
    """Whether a type allows a value, decided here anew and not by vitscope's own checks."""
    return any(_allowed(value, one) for one in alternatives(hint))


def _allowed(value: Any, hint: Any) -> bool:
    base, conditions = base_of(hint), get_args(hint)[1:] if base_of(hint) is not hint else ()
    origin = get_origin(base)
    if base is Any or (not isinstance(base, type) and origin is None):
        return True
    if base is types.NoneType:
        return value is None
    if base is bool:
        return isinstance(value, bool)
    if base in (int, float):
        if isinstance(value, bool) or not isinstance(value, int if base is int else int | float):
            return False
        if (isinstance(value, float) and not math.isfinite(value)) or abs(value) > 1e300:
            return False
        return all(_inside(value, condition) for condition in conditions)
    if base is str:
        return isinstance(value, str) and "\0" not in value
    if origin is Literal:
        return isinstance(value, str | int) and value in get_args(base)
    if base is Path or base is os.PathLike or origin is os.PathLike:
        return (
            isinstance(value, str | os.PathLike) and "\0" not in os.fspath(value) and bool(str(value).strip())
        )
    if origin in (tuple, list, collections.abc.Sequence, collections.abc.Iterable):
        if isinstance(value, str | bytes | dict) or not isinstance(value, collections.abc.Collection):
            return False
        return all(allowed(item, get_args(base)[0]) for item in value)
    if isinstance(base, type):
        return isinstance(value, base)
    return True


def _inside(value: float, bounds: Any) -> bool:
    if not isinstance(bounds, Range):
        return True
    low = -math.inf if bounds.low is None else bounds.low
    high = math.inf if bounds.high is None else bounds.high
    above = value > low if bounds.above else value >= low
    return above and (value < high if bounds.below else value <= high)


def _reads(word: str, hint: Any) -> bool:
    """Whether a word is a value of the type."""
    for one in alternatives(hint):
        base = base_of(one)
        if base is types.NoneType and word in NOTHING:
            return True
        if get_origin(base) is Literal and word in map(str, get_args(base)):
            return True
        if base in (int, float):
            try:
                number = base(word)
            except ValueError:
                continue
            if word.strip() == word and "_" not in word and _allowed(number, one):
                return True
        if base is bool and word.lower() in ("true", "false"):
            return True
    return False
