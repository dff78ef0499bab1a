"""Options of single exams: `options={"hessian": {"batches": 4}}`, or `--hessian.batches 4` on the command line.

An exam with passes of its own takes those of its function; one that shares the pass states them in `OPTIONS`.
"""

import difflib
import functools
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from vitscope.core.arguments import check, read_list
from vitscope.core.arguments.calling import hints_of
from vitscope.core.arguments.kinds import alternatives, base_of, is_several
from vitscope.core.errors import BadArgument
from vitscope.core.exam_names import check_exam_names
from vitscope.engine.exam import EXAMS, Accumulator, Procedure

Exam = type[Accumulator] | Procedure
# What every exam takes, and `diagnose` itself hands on.
_COMMON = frozenset(
    "model data limit batch_size seed device name output mean std parts stream return".split()
)


def options_of(exam: Exam) -> dict[str, Any]:
    """The options that can be written down, with their types."""
    if not isinstance(exam, Procedure):
        return dict(exam.OPTIONS)
    hints = hints_of(inspect.unwrap(exam.options or exam.run))
    return {name: hint for name, hint in hints.items() if name not in _COMMON and _can_be_written(hint)}


def with_options(exams: Iterable[Exam], options: Mapping[str, Mapping[str, Any]] | None) -> list[Exam]:
    """The exams with their options; one that is not among them, and what it does not take, is refused."""
    chosen = list(exams)
    names = [exam.result.exam for exam in chosen]
    for name, given in (options or {}).items():
        if not isinstance(given, Mapping):
            raise BadArgument(f"options of {name} are {given!r}; expected a dict such as {{'limit': 8}}")
        check_exam_names([name], EXAMS)
        if name not in names:
            said = ", ".join(f"{name}.{option}" for option in given) or "options"
            one = "is" if len(given) == 1 else "are"
            raise BadArgument(
                f"{said} {one} for {name}, which is not among the exams: {', '.join(names)}; add it"
            )
    return [_with(exam, (options or {}).get(exam.result.exam) or {}) for exam in chosen]


def read_options(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """From "hessian.batches=4" and "corruption.types=fog,snow" to options by exam."""
    found: dict[str, dict[str, Any]] = {}
    for word in words:
        address, equals, text = word.partition("=")
        exam, dot, option = address.partition(".")
        if not (equals and dot and exam and option):
            raise BadArgument(f"--options is '{word}'; expected EXAM.OPTION=VALUE, such as hessian.batches=4")
        check_exam_names([exam], EXAMS)
        option = option.replace("-", "_")
        hint = _known(exam, option, options_of(EXAMS[exam]))
        found.setdefault(exam, {})[option] = read_list(text, hint, f"--{address}")
    return found


def _with(exam: Exam, given: Mapping[str, Any]) -> Exam:
    if not given:
        return exam
    name, hints = exam.result.exam, options_of(exam)
    typed = {key: check(value, _known(name, key, hints), f"{name}.{key}") for key, value in given.items()}
    if not isinstance(exam, Procedure):
        return exam.with_options(**typed)
    settings = json.dumps({key: _plain(value) for key, value in sorted(typed.items())})
    return replace(exam, run=functools.partial(exam.run, **typed), settings=settings)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _known(exam: str, option: str, hints: Mapping[str, Any]) -> Any:
    if option in hints:
        return hints[option]
    if not hints:
        raise BadArgument(f"no option {exam}.{option}; {exam} takes none")
    near = difflib.get_close_matches(option, hints, 1)
    meant = (
        f"did you mean {exam}.{near[0]}?"
        if near
        else "it takes " + ", ".join(f"{exam}.{name}" for name in hints)
    )
    raise BadArgument(f"no option {exam}.{option}; {meant}")


def _can_be_written(hint: Any) -> bool:
    """Whether some alternative of a type can be typed as words."""
    kinds = [base_of(one) for one in alternatives(hint)]
    kinds = [base_of(get_args(kind)[0]) if is_several(kind) else kind for kind in kinds]
    return any(kind in (int, float, str, bool, Path) or get_origin(kind) is Literal for kind in kinds)
