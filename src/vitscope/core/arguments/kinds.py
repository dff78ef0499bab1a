"""A type taken apart (what a union joins, the conditions on it, what it stands for), and a type or a value in words."""

import collections.abc
import functools
import numbers
import operator
import os
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, is_typeddict

from vitscope.core.arguments.vocabulary import Range, Refine
from vitscope.core.errors import alike

_abc = collections.abc
_MANY = (_abc.Sequence, _abc.Iterable, _abc.Collection, list, tuple, set, frozenset)
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


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types that a union joins, with the conditions that stand around it; of another type, itself."""
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(one for part in get_args(hint) for one in alternatives(part))
    if get_origin(hint) is Annotated and get_origin(get_args(hint)[0]) in (Union, types.UnionType):
        base, *extras = get_args(hint)
        annotated: Any = Annotated  # the conditions are known only when this runs
        return tuple(
            one if base_of(one) is types.NoneType else annotated[(one, *extras)] for one in alternatives(base)
        )
    return (hint,)


def base_of(hint: Any) -> Any:
    """A type without the conditions on it."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def conditions_of(hint: Any) -> tuple[Any, ...]:
    """The conditions on a type."""
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def plain(hint: Any) -> Any:
    """A type without conditions anywhere in it, as people read it."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return plain(parts[0])
    if kind in (Union, types.UnionType):
        return functools.reduce(operator.or_, map(plain, parts))
    return kind[tuple(map(plain, parts))] if is_several(hint) or (is_mapping(hint) and parts) else hint


def is_path(base: Any) -> bool:
    """Whether a type without conditions stands for paths."""
    return (get_origin(base) or base) in (Path, os.PathLike)


def is_function(base: Any) -> bool:
    """Whether a type without conditions stands for what can be called."""
    return (get_origin(base) or base) is _abc.Callable


def is_several(base: Any) -> bool:
    """Whether a type without conditions stands for several values of another."""
    return (get_origin(base) or base) in _MANY


def is_mapping(base: Any) -> bool:
    """Whether a type without conditions stands for dicts."""
    return (get_origin(base) or base) in (dict, _abc.Mapping)


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
    if isinstance(value, str) and (near := alike(value, words)):
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
    return _with_article(type(value).__name__)


def _describe(hint: Any, value: Any) -> str:
    base, conditions = base_of(hint), conditions_of(hint)
    for condition in conditions:
        if isinstance(condition, Refine):
            return condition.expected
    bounds = next((one.words(value) for one in conditions if isinstance(one, Range)), "")
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
        return _CLASSES.get(base.__name__, _with_article(base.__name__))
    return ""


def _with_article(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOUaeio' else 'a'} {name}"


def _words_of(hint: Any) -> tuple[Any, ...]:
    base = base_of(hint)
    return get_args(base) if get_origin(base) is Literal else ()


def _as_number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None
