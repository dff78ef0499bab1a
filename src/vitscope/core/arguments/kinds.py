"""The structure of a type: what a union joins, which conditions stand on it, whether it is a path or a list."""

import collections.abc
import functools
import operator
import os
import types
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from vitscope.core.arguments.vocabulary import ForMachine, Range

MANY = (
    collections.abc.Sequence,
    collections.abc.Iterable,
    collections.abc.Collection,
    list,
    tuple,
    set,
    frozenset,
)
MAPPINGS = (dict, collections.abc.Mapping)


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


def bounds_of(condition: Range | ForMachine) -> Range:
    """The bounds on this machine."""
    return condition.range() if isinstance(condition, ForMachine) else condition


def is_path(base: Any) -> bool:
    """Whether a type without conditions stands for paths."""
    return base is Path or get_origin(base) is os.PathLike or base is os.PathLike


def is_function(base: Any) -> bool:
    """Whether a type without conditions stands for what can be called."""
    return base is collections.abc.Callable or get_origin(base) is collections.abc.Callable


def is_several(base: Any) -> bool:
    """Whether a type without conditions stands for several values of another."""
    return get_origin(base) in MANY or base in MANY


def is_mapping(base: Any) -> bool:
    """Whether a type without conditions stands for dicts."""
    return get_origin(base) in MAPPINGS or base in MAPPINGS
