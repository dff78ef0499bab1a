"""Compare a value with the type that a signature declares, and refuse it in words.

    check(-3, int | None, "limit")   ->   limit is -3; expected a whole number, 1 or more, or None

Types that say nothing that could be looked at (Any, type variables) let every value pass.
"""

import collections.abc
import math
import numbers
import os
import types
from pathlib import Path
from typing import Any, Literal, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

from vitscope.core.arguments.kinds import (
    alternatives,
    base_of,
    conditions_of,
    describe,
    is_function,
    is_mapping,
    is_path,
    is_several,
    refusal,
    shown,
)
from vitscope.core.arguments.vocabulary import Range, Refine
from vitscope.core.errors import BadArgument

_LONGEST_NAME, _LONGEST_PATH = 255, 4095


def check(value: Any, hint: Any, name: str) -> Any:
    """`value` as the type wants it (numpy's numbers as Python's, lists as tuples); else refuses it."""
    taken, problem = take(value, hint)
    if problem is None:
        return taken
    raise BadArgument(refusal(name, value, hint, problem))


def problem_with(value: Any, hint: Any) -> str | None:
    """What is wrong with a value that a file holds, to stand in brackets behind the file's name; None: nothing."""
    problem = take(value, hint)[1]
    return f"{shown(value)} where {describe(hint)} is expected" if problem == "_" else problem


def take(value: Any, hint: Any) -> tuple[Any, str | None]:
    """The value as the type wants it, and what is wrong with it (None: nothing, "_": not of this type)."""
    choices = alternatives(hint)
    if len(choices) > 1:
        if isinstance(value, str) and any(is_path(base_of(one)) for one in choices):
            choices = tuple(one for one in choices if base_of(one) is not str)  # text is a path there
        problems = []
        for one in choices:
            taken, problem = take(value, one)
            if problem is None:
                return taken, None
            problems.append(problem)
        return value, next((problem for problem in problems if problem != "_"), "_")
    taken, problem = _take_base(value, base_of(hint))
    if problem is not None:
        return taken, problem
    for condition in conditions_of(hint):
        if isinstance(condition, Range):
            if not (isinstance(taken, int | float) and condition.holds(taken)):
                return value, "_"
        elif isinstance(condition, Refine) and (problem := condition.problem(taken)) is not None:
            return value, problem
    return taken, None


def problem_with_path(value: Any) -> str | None:
    """What no file system can take, or None."""
    if not isinstance(value, str | os.PathLike):
        return "_"
    text = os.fspath(value)
    if not isinstance(text, str):
        return "_"
    if not text.strip():
        return "it is empty"
    if "\0" in text:
        return "it holds a zero byte"
    longest = max(len(os.fsencode(part)) for part in Path(text).parts or (".",))
    too_long = longest > _LONGEST_NAME or len(os.fsencode(text)) > _LONGEST_PATH
    return "no file system takes a name of this length" if too_long else None


def _take_base(value: Any, base: Any) -> tuple[Any, str | None]:
    origin = get_origin(base)
    if base is types.NoneType or base is None:
        return value, None if value is None else "_"
    if base is bool:
        return (bool(value), None) if _is_bool(value) else (value, "_")
    if base is int:
        return _whole(value)
    if base is float:
        return _real(value)
    if base is str:
        if not isinstance(value, str):
            return value, "_"
        return value, "it holds a zero byte" if "\0" in value else None
    if origin is Literal:
        known = any(type(word) is type(value) and word == value for word in get_args(base))
        return value, None if known else "_"
    if is_path(base):
        return value, problem_with_path(value)
    if is_function(base):
        return value, None if callable(value) else "_"
    if is_several(base):
        return _many(value, base)
    if is_typeddict(base):
        return value, _problem_with_record(value, base)
    if is_mapping(base):
        return value, _problem_with_mapping(value, get_args(base))
    if isinstance(base, type) and base is not Any and not getattr(base, "_is_protocol", False):
        return value, None if isinstance(value, base) else "_"
    return value, None


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _scalar(value: Any) -> Any:
    """A tensor or array of one number as that number."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


def _whole(value: Any) -> tuple[Any, str | None]:
    value = _scalar(value)
    whole = isinstance(value, numbers.Integral) and not _is_bool(value)
    return (int(value), None) if whole else (value, "_")


def _real(value: Any) -> tuple[Any, str | None]:
    value = _scalar(value)
    if _is_bool(value) or not isinstance(value, numbers.Real):
        return value, "_"
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        return value, "_"
    return (value if isinstance(value, int | float) else number), None


def _many(value: Any, base: Any) -> tuple[Any, str | None]:
    if isinstance(value, str | bytes | collections.abc.Mapping):
        return value, "_"
    if isinstance(value, collections.abc.Iterator):
        value = list(value)
    if not isinstance(value, collections.abc.Collection):
        return value, "_"
    elements = get_args(base)
    if not elements or elements[0] is Any:
        return value, None
    if get_origin(base) is tuple and Ellipsis not in elements:
        if len(value) != len(elements):
            return value, f"{len(value)} values"
        hints = elements
    else:
        hints = (elements[0],) * len(value)
    taken = []
    for item, hint in zip(value, hints, strict=True):
        one, problem = take(item, hint)
        if problem is not None:
            return value, f"{shown(item)} in it" if problem == "_" else f"{shown(item)}: {problem}"
        taken.append(one)
    kept: Any = tuple(taken) if isinstance(value, tuple) or get_origin(base) is tuple else taken
    return (kept if isinstance(value, list | tuple) else value), None


def _problem_with_mapping(value: Any, kinds: tuple[Any, ...]) -> str | None:
    if not isinstance(value, collections.abc.Mapping):
        return "_"
    for name, item in value.items() if kinds else ():
        if take(name, kinds[0])[1] is not None:
            return f"{shown(name)} is no name in it"
        if problem := _problem_with_item(name, item, kinds[1]):
            return problem
    return None


def _problem_with_item(name: str, item: Any, hint: Any) -> str | None:
    problem = take(item, hint)[1]
    if problem is None:
        return None
    return f"its {name} is {shown(item)}" + ("" if problem == "_" else f": {problem}")


def _problem_with_record(value: Any, record: Any) -> str | None:
    """What is wrong with a dict that a `TypedDict` describes; names that it does not know are let pass."""
    if not isinstance(value, collections.abc.Mapping):
        return "_"
    hints = get_type_hints(record, include_extras=True)
    for name in sorted(record.__required_keys__):
        if name not in value:
            return f"it lacks {name}"
    for name, declared in hints.items():
        hint = get_args(declared)[0] if get_origin(declared) is NotRequired else declared
        if name in value and (problem := _problem_with_item(name, value[name], hint)):
            return problem
    return None
