"""Whose results keep a page from being made: those that can be read, but whose contents do not fit together.

A file with a right checksum may hold anything. Whatever goes wrong while its numbers are tabulated or drawn is noticed
where a page is made; whose it is shows by making the page of each exam alone.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from vitscope.core.errors import BadResult, memory_in_words
from vitscope.report.subject import RunSubject

T = TypeVar("T")
Make = Callable[[Sequence[RunSubject]], T]


def make_of_sound(subjects: Sequence[RunSubject], make: Make[T], set_aside: bool = False) -> T:
    """What `make` makes of runs.

    Args:
        subjects: The runs.
        make: Makes a page of runs, or anything else that follows from their results.
        set_aside: Whether exams that it cannot be made of are noted as damaged, and left out.

    Raises:
        BadResult: It cannot be made of an exam, or of nothing else in a run; the message names its file.
    """
    try:
        return make(subjects)
    except Exception as error:
        if isinstance(error, OSError) or memory_in_words(error) is not None:
            raise
        found = _troubles(subjects, make)
        if not found:
            raise
        damages = {place: subjects[place[0]].run.damage([place[1]], why) for place, why in found.items()}
        place = next(iter(damages))
        left = [
            _without(s, {e: d for (j, e), d in damages.items() if j == i}) for i, s in enumerate(subjects)
        ]
        if not set_aside or not all(subject.results for subject in left):
            raise damages[place] from found[place]
        return make(left)


def _troubles(subjects: Sequence[RunSubject], make: Make[T]) -> dict[tuple[int, str], Exception]:
    """What `make` raises of single exams, by the place of the run and the name of the exam.

    An exam that only fails beside that of another run is every run's trouble.
    """
    found: dict[tuple[int, str], Exception] = {}
    for exam in dict.fromkeys(exam for subject in subjects for exam in subject.results):
        having = [i for i, subject in enumerate(subjects) if exam in subject.results]
        alone = [_with_only(subjects[i], exam) for i in having]
        own = {
            (i, exam): error for i, one in zip(having, alone, strict=True) if (error := _error(make, [one]))
        }
        if not own and len(having) > 1 and (error := _error(make, alone)):
            own = {(i, exam): error for i in having}
        found |= own
    return found


def _error(make: Make[T], subjects: Sequence[RunSubject]) -> Exception | None:
    try:
        make(subjects)
    except Exception as error:
        return error
    return None


def _with_only(subject: RunSubject, exam: str) -> RunSubject:
    return replace(subject, results={exam: subject.results[exam]}, outdated=[], damaged={})


def _without(subject: RunSubject, damages: dict[str, BadResult]) -> RunSubject:
    """The run without these exams, and with notes why."""
    results = {exam: result for exam, result in subject.results.items() if exam not in damages}
    told = {e: str(damage).replace(f"{subject.run.path}{os.sep}", "") for e, damage in damages.items()}
    return replace(subject, results=results, damaged={**subject.damaged, **told})
