"""Which exams are done: those that are named, with their options, as far as the data can serve them.

Options are those of single exams: `options={"hessian": {"batches": 4}}`, or `--hessian.batches 4` on the command line.
An exam with passes of its own takes those of its function; one that shares the pass states them in `OPTIONS`.
"""

import functools
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from vitscope.core.arguments import check, read_list
from vitscope.core.arguments.calling import argument_hints
from vitscope.core.arguments.kinds import alternatives, base_of, is_several
from vitscope.core.errors import BadArgument, BadData, VitscopeError, alike, said_by, warn
from vitscope.core.names import ALL, check_exam_names
from vitscope.data.fetchers import is_unlabelled, require_labels
from vitscope.data.frames import FrameData
from vitscope.data.images import ImageData
from vitscope.data.task_data import TaskData
from vitscope.data.tasks.frames import as_frames
from vitscope.engine.exam import EXAMS, Exam, Procedure
from vitscope.engine.facts import data_name
from vitscope.engine.task_inputs import is_of, require_task, task_of_model
from vitscope.findings.prediction import PredictionResult
from vitscope.recipes.recipe import Recipe
from vitscope.results import Result

# diagnosis: what goes on inside; evaluation: how good and how robust the predictions are
Purpose = Literal["diagnosis", "evaluation"]
# what every exam takes, and `diagnose` itself hands on
_COMMON = frozenset(
    "model data limit batch_size seed device name output mean std parts stream return".split()
)


class NothingToShow(UserWarning):
    """An exam that was asked for has no row in its table."""


def find_exams(names: Iterable[str] | None = None, purpose: Purpose = "diagnosis") -> list[Exam]:
    """The exams of these names, in this order and once each, whatever their purpose.

    The name "all" stands for every exam of the purpose that is not costly. Without names: in a diagnosis those that
    share one pass and add little to it, in an evaluation all.
    """
    cheap = [name for name, exam in EXAMS.items() if _serves(exam, purpose)]
    unasked = [name for name in cheap if isinstance(exam := EXAMS[name], type) and exam.by_default]
    if names is None:
        names = unasked if purpose == "diagnosis" else cheap
    chosen = list(dict.fromkeys(found for name in names for found in (cheap if name == ALL else [name])))
    check_exam_names(chosen, (*EXAMS, ALL))
    if not chosen:
        raise VitscopeError(f"no exam was named; there are: {', '.join(EXAMS)}, or {ALL}")
    return [EXAMS[name] for name in chosen]


def _serves(exam: Exam, purpose: Purpose) -> bool:
    if isinstance(exam, type):
        return purpose == "diagnosis" or exam.evaluation
    return not exam.costly and exam.evaluation == (purpose == "evaluation")


def fitting(found: Sequence[Exam], names: Sequence[str] | None, data: Any, model: Any = None) -> list[Exam]:
    """Of exams that nobody has named, those that data and model can serve; one that was named is refused if not.

    What is left out is said in one line, with the reason: if "all" were asked for, and of pictures without labels in
    any case. Exams of other tasks than the data's are not meant by anybody.
    """
    kept: list[Exam] = []
    left: dict[str, list[str]] = {}
    needing = [e.result.exam for e in found if e.needs_labels and e.result.exam in (names or ())]
    if len(needing) > 1 and isinstance(data, ImageData) and is_unlabelled(data):
        require_labels(data, f"each of {', '.join(needing)}")
    for exam in found:
        name, lacking = exam.result.exam, _lacks(exam, data, model)
        if not lacking:
            kept.append(exam)
        elif name in (names or ()):
            _refuse(exam, data, model)
            kept.append(exam)  # whether a model is for pixels shows in what it puts out
        elif not lacks_task(exam, data):
            left.setdefault(lacking, []).append(name)
    if not kept and is_unlabelled(data):
        require_labels(data, "every exam that is wanted")
    if left and (names is not None or (isinstance(data, TaskData | ImageData) and is_unlabelled(data))):
        told = [
            f"{', '.join(exams)} ({'they need' if len(exams) > 1 else 'it needs'} {what})"
            for what, exams in left.items()
        ]
        warn(f"left out: {'; '.join(told)}")
    return kept


def _lacks(exam: Exam, data: Any, model: Any) -> str:
    """What an exam needs that is not there; empty if all is."""
    if lacks_frames(exam, data) or lacks_task(exam, data):
        return exam.result.needs
    if isinstance(exam, type) and exam.task and model is not None and task_of_model(model) != exam.task:
        return exam.result.needs
    if isinstance(exam, Procedure) and exam.or_task and isinstance(data, TaskData):
        fits = model is None or task_of_model(model) == data.task
        return "" if fits else f"a model that was trained for {data.task}"
    return "a label for each image" if exam.needs_labels and is_unlabelled(data) else ""


def _refuse(exam: Exam, data: Any, model: Any) -> None:
    """Say of an exam that was named why it cannot be done, before anything is."""
    if lacks_frames(exam, data):
        require_frames(data)
    if isinstance(exam, type) and exam.task:
        require_task(data, model, exam.task, exam.result.exam)
    elif isinstance(exam, Procedure) and exam.or_task and isinstance(data, TaskData):
        require_task(data, model, data.task, exam.result.exam)
    elif exam.needs_labels:
        with said_by(exam.result.exam):
            require_labels(data, exam.result.exam)


def lacks_task(exam: Exam, data: Any) -> bool:
    """Whether an exam is about a task and the data is not of it."""
    return isinstance(exam, type) and bool(exam.task) and not is_of(data, exam.task)


def lacks_frames(exam: Exam, data: Any) -> bool:
    """Whether an exam is about streams and the data is none."""
    return isinstance(exam, Procedure) and exam.needs_frames and not _is_stream(data)


def _is_stream(data: Any) -> bool:
    return isinstance(data, FrameData) or (is_of(data, "segmentation") and data.streams is not None)


def require_frames(data: Any) -> FrameData:
    """The data as a stream of frames; refuses what is none."""
    if not _is_stream(data):
        raise BadData(
            f"{data_name(data)} is no stream of frames, which temporal needs; give --data frames:PATH, coral-stream or "
            "camvid-frames:PATH (in Python vs.load_data('frames:PATH'))"
        )
    return data if isinstance(data, FrameData) else as_frames(data)


def tell_of_results(results: Mapping[str, Result], names: Sequence[str] | None) -> None:
    """Say of exams that were named and have nothing to show what they need, and what takes the sense from a number."""
    predicted = results.get("prediction")
    if isinstance(predicted, PredictionResult) and predicted.mismatch:
        warn(predicted.mismatch)
    for exam, result in results.items():
        if exam in (names or ()) and result.table().empty:
            warn(
                f"{exam} has nothing to show of {result.model} on {result.data}: it needs {result.needs}",
                NothingToShow,
            )


def options_of(exam: Exam) -> dict[str, Any]:
    """The options that can be written down, with their types."""
    if not isinstance(exam, Procedure):
        return dict(exam.OPTIONS)
    hints = argument_hints(inspect.unwrap(exam.options or exam.run))
    return {name: hint for name, hint in hints.items() if name not in _COMMON and _can_be_written(hint)}


def with_options(exams: Iterable[Exam], options: Mapping[str, Mapping[str, Any]] | None) -> list[Exam]:
    """The exams with their options; one that is not among them, and what it does not take, is refused."""
    chosen, options = list(exams), options or {}
    names = [exam.result.exam for exam in chosen]
    for name, given in options.items():
        if not isinstance(given, Mapping):
            raise BadArgument(f"options of {name} are {given!r}; expected a dict such as {{'limit': 8}}")
        check_exam_names([name], EXAMS)
        if name not in names:
            said = ", ".join(f"{name}.{option}" for option in given) or "options"
            one = "is" if len(given) == 1 else "are"
            others = ", ".join(names)
            raise BadArgument(f"{said} {one} for {name}, which is not among the exams: {others}; add it")
    return [_with(exam, options.get(exam.result.exam) or {}) for exam in chosen]


def read_options(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """From "hessian.batches=4" and "corruption.types=fog,snow" to options by exam."""
    found: dict[str, dict[str, Any]] = {}
    for word in words:
        address, equals, text = word.partition("=")
        exam, dot, option = address.replace("-", "_").partition(".")
        if not (equals and dot and exam and option):
            raise BadArgument(f"--options is '{word}'; expected EXAM.OPTION=VALUE, such as hessian.batches=4")
        check_exam_names([exam], EXAMS)
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
    if isinstance(value, Recipe):
        return value.to_dict()
    return str(value) if isinstance(value, Path) else value


def _known(exam: str, option: str, hints: Mapping[str, Any]) -> Any:
    if option in hints:
        return hints[option]
    if not hints:
        raise BadArgument(f"no option {exam}.{option}; {exam} takes none")
    near = alike(option, hints)
    taken = ", ".join(f"{exam}.{name}" for name in hints)
    hint = f"did you mean {exam}.{near[0]}?" if near else f"it takes {taken}"
    raise BadArgument(f"no option {exam}.{option}; {hint}")


def _can_be_written(hint: Any) -> bool:
    """Whether some alternative of a type can be typed as words."""
    kinds = [base_of(one) for one in alternatives(hint)]
    kinds = [base_of(get_args(kind)[0]) if is_several(kind) else kind for kind in kinds]
    return any(kind in (int, float, str, bool, Path) or get_origin(kind) is Literal for kind in kinds)
