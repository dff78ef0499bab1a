"""The options of an exam as `--exams EXAM --help` lists them: type, default, meaning."""

import inspect
import re
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any, Union

from vitscope import exams
from vitscope.core.arguments import describe
from vitscope.core.arguments.kinds import alternatives, base_of
from vitscope.engine.choosing import options_of
from vitscope.engine.exam import Exam, Procedure


def option_lines(exam: Exam) -> Iterator[str]:
    """A line per option; default and meaning are those of the exam's function."""
    name = exam.result.exam
    called = (exam.options or exam.run) if isinstance(exam, Procedure) else getattr(exams, name)
    function = inspect.unwrap(called)
    for option, hint in options_of(exam).items():
        yield f"  --{name}.{option.replace('_', '-')}: {describe(typable(hint))}{_told(function, option)}"


def typable(hint: Any) -> Any:
    """A type without what no word can be, such as a Recipe or a model."""
    words = (int, float, bool, str, NoneType)
    kinds = [one for one in alternatives(hint) if base_of(one) in words or not isinstance(base_of(one), type)]
    return Union[tuple(kinds)] if kinds else hint  # noqa: UP007 - known only when this runs


def _told(function: Callable[..., Any], option: str) -> str:
    default = inspect.signature(function).parameters[option].default
    told = "" if default is inspect.Parameter.empty else f" (default: {_typed(default)})"
    meaning = meaning_of(inspect.getdoc(function) or "", option)
    return told + (f". {meaning}" if meaning else "")


def _typed(default: Any) -> str:
    return " ".join(map(str, default)) if isinstance(default, tuple | list) else str(default)


def meaning_of(docstring: str, argument: str) -> str:
    """The first sentence about an argument in a docstring; empty if there is none."""
    found = re.search(rf"^    {argument}: (.*(?:\n {{8}}.*)*)", docstring, re.MULTILINE)
    text = " ".join(found[1].split()) if found else ""
    return re.split(r"(?<=\.) ", text)[0]
