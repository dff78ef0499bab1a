"""The options of an exam as `--exams EXAM --help` lists them: type, default, meaning."""

import inspect
import re
from collections.abc import Iterator
from types import NoneType
from typing import Any, Union

from vitscope import exams
from vitscope.core.arguments import describe
from vitscope.core.arguments.calling import signature_of
from vitscope.core.arguments.kinds import alternatives, base_of
from vitscope.engine.choose_exams import options_of
from vitscope.engine.exam import Exam, Procedure


def option_lines(exam: Exam) -> Iterator[str]:
    """A line per option, without a meaning where the exam's function documents none."""
    name = exam.result.exam
    called = (exam.options or exam.run) if isinstance(exam, Procedure) else getattr(exams, name, exam)
    documented = inspect.getdoc(called) or ""
    for option, hint in options_of(exam).items():
        meaning = meaning_of(documented, option)
        line = f"  --{name}.{option.replace('_', '-')}: {describe(typable(hint))}{_default(exam, option)}"
        yield f"{line}. {meaning}" if meaning else line


def typable(hint: Any) -> Any:
    """A type without what no word can be, such as a Recipe or a model."""
    words = (int, float, bool, str, NoneType)
    kinds = [one for one in alternatives(hint) if base_of(one) in words or not isinstance(base_of(one), type)]
    return Union[tuple(kinds)] if kinds else hint  # noqa: UP007 - known only when this runs


def _default(exam: Exam, option: str) -> str:
    if isinstance(exam, Procedure):
        default = signature_of(inspect.unwrap(exam.options or exam.run)).parameters[option].default
    else:
        default = getattr(exam, option)
    return "" if default is inspect.Parameter.empty else f" (default: {_typed(default)})"


def _typed(default: Any) -> str:
    return " ".join(map(str, default)) if isinstance(default, tuple | list) else str(default)


def meaning_of(docstring: str, argument: str) -> str:
    """The first sentence about an argument in a docstring; empty if there is none."""
    found = re.search(rf"^    {argument}: (.*(?:\n {{8}}.*)*)", docstring, re.MULTILINE)
    text = " ".join(found[1].split()) if found else ""
    return re.split(r"(?<=\.) ", text)[0]
