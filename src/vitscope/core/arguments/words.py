"""A type and a refused value in words."""

import difflib
import numbers
import os
import types
from typing import Any, Literal, get_args, get_origin, is_typeddict

from vitscope.core.arguments.kinds import (
    alternatives,
    base_of,
    bounds_of,
    conditions_of,
    is_function,
    is_mapping,
    is_path,
    is_several,
)
from vitscope.core.arguments.vocabulary import ForMachine, Range, Refine

_CLASSES = {
    "Module": "a model (torch.nn.Module), as vs.create_model gives it",
    "Tensor": "a tensor",
    "DataLoader": "a torch DataLoader",
    "Recipe": "a Recipe",
    "device": "a device",
    "dtype": "a torch type",
    "Unit": "a unit of vs.anatomy(model)",
    "Result": "a result of an exam",
    "Axes": "axes of matplotlib",
}

_SEVERAL = "several of: "


def describe(hint: Any, value: Any = None) -> str:
    """What a type allows, in words, for somebody who has given `value`."""
    words = list(dict.fromkeys(filter(None, (_describe(one, value) for one in alternatives(hint)))))
    if "a path" in words and "text" in words:
        words.remove("text")
    for one in [word for word in words if f"{_SEVERAL}{word}" in words]:
        words.remove(f"{_SEVERAL}{one}")
        words[words.index(one)] = f"{one}, or several"
    return ", or ".join(words)


def refusal(name: str, value: Any, hint: Any, problem: str) -> str:
    """What was seen, what is wrong with it ("_": it is of another type), and what was expected."""
    why = f" ({problem})" if problem and problem != "_" else ""
    meant = ""
    words = [str(word) for one in alternatives(hint) for word in _words_of(one)]
    if isinstance(value, str) and (near := difflib.get_close_matches(value, words, 1)):
        meant = f"; did you mean {near[0]}?"
    return f"{name} is {shown(value)}{why}; expected {describe(hint, _as_number(value))}{meant}"


def shown(value: Any) -> str:
    """A value as a message shows it: short, on one line."""
    if value is None:
        return "None"
    if isinstance(value, str):
        text = value if len(value) <= 60 else f"{value[:50]}... ({len(value)} characters)"
        return f"'{text.encode('unicode_escape').decode()}'" if not text.isprintable() else f"'{text}'"
    if isinstance(value, bool | numbers.Number):
        return str(value) if len(str(value)) <= 40 else f"{str(value)[:12]}... ({len(str(value))} digits)"
    if isinstance(value, list | tuple | set | dict) and len(repr(value)) <= 60:
        return repr(value)
    if isinstance(value, os.PathLike):
        return f"'{os.fspath(value)!s}'"
    return f"a {type(value).__name__}"


def _describe(hint: Any, value: Any) -> str:
    base, conditions = base_of(hint), conditions_of(hint)
    for condition in conditions:
        if isinstance(condition, Refine):
            return condition.expected
    bounds = next((bounds_of(c).words(value) for c in conditions if isinstance(c, Range | ForMachine)), "")
    if base is types.NoneType:
        return "None"
    if base is bool:
        return "true or false"
    if base is int:
        return f"a whole number{bounds}"
    if base is float:
        return f"a number{bounds}"
    if base is str:
        return "text"
    if get_origin(base) is Literal:
        allowed = [str(word) for word in get_args(base)]
        return " or ".join(allowed) if len(allowed) < 3 else f"one of {', '.join(allowed)}"
    if is_path(base):
        return "a path"
    if is_several(base):
        inner = [describe(one) for one in get_args(base) if one is not Ellipsis]
        if get_origin(base) is tuple and Ellipsis not in get_args(base) and inner:
            return f"{len(inner)} values: {inner[0]}" + (" each" if len(set(inner)) == 1 else "")
        return f"{_SEVERAL}{inner[0]}" if inner and inner[0] else "a list"
    if is_mapping(base) or is_typeddict(base):
        return "a dict"
    if is_function(base):
        return "a function"
    if isinstance(base, type) and base is not Any and isinstance(getattr(base, "exam", None), str):
        return f"a result of vs.exams.{base.exam}"  # type: ignore[attr-defined]
    if isinstance(base, type) and base is not Any:
        return _CLASSES.get(base.__name__, f"a {base.__name__}")
    return ""


def _words_of(hint: Any) -> tuple[Any, ...]:
    base = base_of(hint)
    return get_args(base) if get_origin(base) is Literal else ()


def _as_number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None
