"""Which exams data can serve, and what is said about one that was asked for and has nothing to show."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitscope.core.errors import BadData, warn
from vitscope.data.fetchers import is_unlabelled
from vitscope.data.streams.frames import FrameData
from vitscope.engine.cache_key import data_name
from vitscope.engine.exam import Accumulator, Procedure
from vitscope.results import Result

Exam = type[Accumulator] | Procedure


class NothingToShow(UserWarning):
    """An exam that was asked for has no row in its table."""


def fitting(found: Sequence[Exam], names: Sequence[str] | None, data: Any) -> list[Exam]:
    """Of exams that nobody has named, those that the data can serve; one that was named is refused if it cannot."""
    if names is None and is_unlabelled(data):
        found = [exam for exam in found if isinstance(exam, type) and not exam.needs_labels]
    kept = []
    for exam in found:
        if not lacks_frames(exam, data):
            kept.append(exam)
        elif exam.result.exam in (names or ()):
            require_frames(data)
        elif names is not None:  # "all" were asked for
            warn(f"{exam.result.exam} is left out: it needs {exam.result.needs}")
    return kept


def lacks_frames(exam: Exam, data: Any) -> bool:
    """Whether an exam is about streams and the data is none."""
    return isinstance(exam, Procedure) and exam.needs_frames and not isinstance(data, FrameData)


def require_frames(data: Any) -> None:
    """Refuse images alone where a stream is needed."""
    if not isinstance(data, FrameData):
        raise BadData(
            f"{data_name(data)} is no stream of frames, which temporal needs; give --data frames:PATH "
            "(in Python vs.load_data('frames:PATH'))"
        )


def tell_of_nothing(results: Mapping[str, Result], names: Sequence[str] | None) -> None:
    """Say of exams that were named and have nothing to show what they need."""
    for exam, result in results.items():
        if exam in (names or ()) and result.table().empty:
            warn(
                f"{exam} has nothing to show of {result.model} on {result.data}: it needs {result.needs}",
                NothingToShow,
            )
