"""Operations as they are written: "alternate budget=4 heads=3,6,12,24", or {"alternate": {"budget": 4}}.

A value is read by the type of its argument. Words without a key are the first arguments: "extend msa".
"""

import difflib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from vitscope.core.arguments import check, describe, read_list
from vitscope.core.arguments.calling import hints_of
from vitscope.core.errors import BadArgument
from vitscope.surgery.tools.record import OPERATIONS, checked_call

NOT_WRITTEN = ("model", "example")
Plan = tuple[str, dict[str, Any]]  # name of an operation, and its options as it takes them


def plan_operations(said: str | Mapping[str, Any]) -> list[Plan]:
    """What is asked for, checked; no model is needed."""
    if isinstance(said, str):
        return [read_operation(said)]
    plans = []
    for word, options in said.items():
        name = find_operation(check(word, str, "an operation"))
        given = {} if options is None else options
        if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
            raise BadArgument(
                f"{name} is {given!r}; expected a dict of its arguments, as in {_example(name)}"
            )
        plans.append((name, checked_call(name, given)))
    return plans


def read_operation(text: str, flag: str = "") -> Plan:
    """One operation out of "alternate msa=0,1,1,2" or "lesion blocks.3.attn".

    Args:
        text: What was typed.
        flag: How errors call the operation, if not by its name.
    """
    words = text.split()
    if not words:
        raise BadArgument(f"an operation without a name; there are: {', '.join(OPERATIONS)}")
    name = find_operation(words[0])
    function = inspect.unwrap(OPERATIONS[name])
    parameters = inspect.signature(function).parameters
    taken = {key: one for key, one in parameters.items() if key not in NOT_WRITTEN}
    return name, read_words(words[1:], taken, hints_of(function), flag or name)


def read_words(
    words: Sequence[str], taken: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], called: str
) -> dict[str, Any]:
    """Arguments out of words, by the types of a function.

    Args:
        words: "key=value", or a value for the next argument that is not for keywords alone.
        taken: What can be given.
        hints: Their types.
        called: How errors call the function.
    """
    by_place = [key for key, one in taken.items() if one.kind is not one.KEYWORD_ONLY]
    bare = [word for word in words if "=" not in word]
    if len(bare) > len(by_place):
        raise BadArgument(f"{called} takes {', '.join(taken)}; {len(bare)} words came without a name")
    pairs = list(zip(by_place, bare, strict=False))
    parted = (word.partition("=") for word in words)
    pairs += [(key.replace("-", "_"), value) for key, equals, value in parted if equals]
    options: dict[str, Any] = {}
    for key, value in pairs:
        if key not in taken:
            near = difflib.get_close_matches(key, taken, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"it takes {', '.join(taken)}"
            raise BadArgument(f"{called}: no argument '{key}'; {hint}")
        if key in options:
            raise BadArgument(f"{called} {key} is given twice; give it once")
        options[key] = read_list(value, hints.get(key, Any), f"{called} {key}")
    absent = [key for key, one in taken.items() if one.default is one.empty and key not in options]
    if absent:
        expected = describe(hints.get(absent[0], Any))
        raise BadArgument(f"{called} needs {absent[0]}, {expected}: {called} {absent[0]}=...")
    return options


def find_operation(word: str) -> str:
    """The name of an operation, written with dashes or without."""
    name = word.removeprefix("--").replace("-", "_")
    if name not in OPERATIONS:
        near = difflib.get_close_matches(name, OPERATIONS, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(OPERATIONS)}"
        raise BadArgument(f"no operation '{word}'; {hint}")
    return name


def _example(name: str) -> str:
    taken = [key for key in inspect.signature(OPERATIONS[name]).parameters if key not in NOT_WRITTEN]
    return f"{{'{name}': {{'{taken[0]}': ...}}}}"
