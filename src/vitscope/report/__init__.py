"""One page out of runs: everything in a single file that opens without a network."""

import os
from collections.abc import Sequence
from pathlib import Path

from vitscope.core.arguments import Address, RunFolder, checked
from vitscope.core.arguments.calling import make_callable
from vitscope.core.errors import warn
from vitscope.report.page import render_page
from vitscope.report.sound import make_of_sound
from vitscope.report.subject import find_runs, left_out
from vitscope.report.verdicts import all_verdicts, check_verdicts_file, write_verdicts
from vitscope.results import atomic_write
from vitscope.results.plain_files import check_page

__all__ = ["report"]


@checked
def report(
    runs: RunFolder | Sequence[RunFolder],
    out: str | os.PathLike[str] = "report.html",
    title: str | None = None,
    docs: Address | None = None,
    verdicts: str | os.PathLike[str] | None = None,
) -> Path:
    """Make a page that shows runs side by side.

    Args:
        runs: Run folders, or folders that hold run folders, in the order in which they are shown.
        out: The file to write.
        title: What stands on top; default: the names of the models.
        docs: Address of the documentation to link the exams' pages at; default: only their file names are given.
        verdicts: Also write every verdict, with what it rests on, to this file (.csv, .json or .md).

    An exam whose result is of another version of vitscope is left out, with a warning and a note on the page. Of the
    runs in a folder, those without an exam (of `train`, of `operate`) are passed over, with a warning.

    Returns:
        The path of the page.

    Raises:
        BadResult: A folder is no run, is damaged, or holds no finished exam, nor do the runs in it; or what an exam
            holds does not fit together.
    """
    check_page(out)
    if verdicts is not None:
        check_verdicts_file(verdicts)
    folders = [runs] if isinstance(runs, (str, os.PathLike)) else list(runs)
    subjects = find_runs(folders)
    for command, found in left_out(subjects).items():
        told = "; ".join(f"{', '.join(one.exam for one in exams)} of {s.run.path}" for s, exams in found)
        warn(
            f"left out, because another version of vitscope kept it in another form: {told}; "
            f"compute it anew: {command}"
        )
    judged, page = make_of_sound(subjects, lambda some: (all_verdicts(some), render_page(some, title, docs)))
    if verdicts is not None:
        write_verdicts(judged, verdicts)
    atomic_write(out, page)
    return Path(out)


make_callable(__name__, report)
