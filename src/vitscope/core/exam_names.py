"""What exams are called, known before they are imported, which takes seconds: by the files of their rooms."""

from collections.abc import Collection, Iterable
from pathlib import Path

from vitscope.core.errors import BadArgument, did_you_mean

ALL = "all"
_FILES = sorted(file.stem for file in Path(__file__).parents[1].glob("exams/*/[!_]*.py"))
# `hessian_density` is a second look of `hessian`: a function, but no exam of a diagnosis
EXAM_NAMES = [name for name in _FILES if not any(name.startswith(f"{other}_") for other in _FILES)]


def check_exam_names(names: Iterable[str], known: Collection[str] = (*EXAM_NAMES, ALL)) -> None:
    """Refuse a name that no exam has."""
    for name in names:
        if name not in known:
            raise BadArgument(f"no exam '{name}'; {did_you_mean(name, known)}")
