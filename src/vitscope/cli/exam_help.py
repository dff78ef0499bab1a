"""The options of an exam as `--exams EXAM --help` lists them: type, default, meaning."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from vitscope import exams
from vitscope.core.arguments import describe
from vitscope.engine.choose_exams import options_of
from vitscope.engine.exam import Exam, Procedure


def option_lines(exam: Exam) -> Iterator[str]:
    """A line per option; default and meaning are those of the exam's function."""
    name = exam.result.exam
    called = (exam.options or exam.run) if isinstance(exam, Procedure) else getattr(exams, name)
    function = inspect.unwrap(called)
    for option, hint in options_of(exam).items():
        yield f"  --{name}.{option.replace('_', '-')}: {describe(hint)}{_told(function, option)}"


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
