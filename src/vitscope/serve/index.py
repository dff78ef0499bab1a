"""The runs and studies in a folder, each with what an index shows of it.

A run may be damaged in any way. Whatever reading it leads to is the trouble of its own row.
"""

import csv
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from vitscope.results import Run
from vitscope.results.plain_files import is_shortage, read_plain
from vitscope.results.study_result import FILE as STUDY
from vitscope.results.study_result import StudyFacts, study_facts
from vitscope.results.task_score import EXAM_SCORES, task_score
from vitscope.serve.access import below

RUN = "run.json"
# Folders inside a run that hold no other runs.
_INSIDE = {"exams", "figures", "checkpoints"}
_DEEPEST = 32  # folders within folders that are looked into
_LONGEST = 200  # characters of a text
Fingerprint = tuple[tuple[str, int, int], ...]
Score = tuple[str, tuple[float, float, float]]  # what it is called; value and interval
T = TypeVar("T")


@dataclass(frozen=True)
class ListedRun:
    """One run or study; `accuracy` is the score of a run's task (accuracy, mIoU ...), of an exam of it, else of its
    last epoch.
    """

    path: str  # from the served folder, with slashes; "." is the folder itself
    name: str
    model: str
    data: str
    state: str  # running, done, interrupted, failed, or damaged
    exams: int  # finished ones
    epochs: int
    accuracy: float | None
    low: float | None
    high: float | None
    started: str
    trouble: str = ""  # what of it cannot be read
    score: str = "Accuracy"  # what it is
    kind: Literal["run", "study"] = "run"
    random_weights: bool = False  # nothing was trained or loaded

    def plain(self) -> dict[str, Any]:
        """All fields as a dict that can be written as JSON."""
        return asdict(self)


class Index:
    """Finds runs; a run is read again only when one of its files has changed, or while it is under way."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._known: dict[Path, tuple[Fingerprint, ListedRun]] = {}

    def entries(self) -> list[ListedRun]:
        """Every run and study below the folder, the latest first."""
        found = [self.entry(folder) for folder in _folders(self.root)]
        return sorted(found, key=lambda entry: (entry.started, entry.path), reverse=True)

    def entry(self, folder: Path) -> ListedRun:
        """One run."""
        mark, known = fingerprint(folder), self._known.get(folder)
        if known is not None and known[0] == mark and known[1].state != "running":
            return known[1]
        entry = _read_study(self.root, folder) if is_study(folder) else _read(self.root, folder)
        self._known[folder] = (mark, entry)
        return entry

    def find(self, path: str) -> Path | None:
        """The folder of the run or study that a request names; None if there is none."""
        folder = below(self.root, "" if path == "." else path)
        return folder if folder is not None and _is_shown(self.root, folder) else None


def is_study(folder: Path) -> bool:
    """Whether it is the folder of a study, and of no run."""
    return os.path.lexists(folder / STUDY) and not os.path.lexists(folder / RUN)


def files_of(folder: Path) -> list[Path]:
    """The files that a page of a run or study is made from."""
    alone = [folder / name for name in (RUN, STUDY, "metrics.csv", *(_csv(exam) for exam in EXAM_SCORES))]
    return [file for file in (*alone, *sorted(folder.glob("exams/*/result.json"))) if os.path.lexists(file)]


def _csv(exam: str) -> str:
    return f"exams/{exam}/{exam}.csv"


def fingerprint(folder: Path) -> Fingerprint:
    """Names, times and sizes of the files that a page of a run is made from."""
    marks = []
    for file in files_of(folder):
        try:
            status = file.stat()
        except OSError:
            continue
        marks.append((file.relative_to(folder).as_posix(), status.st_mtime_ns, status.st_size))
    return tuple(marks)


def training_rows(folder: Path) -> list[dict[str, str]]:
    """The finished epochs of a run's `metrics.csv`; a line that is being written does not count, nor a damaged file."""
    try:
        return _rows(folder / "metrics.csv")
    except Exception as error:
        if is_shortage(error):
            raise
        return []


def _rows(path: Path) -> list[dict[str, str]]:
    if not os.path.lexists(path):
        return []
    text = read_plain(path).decode()
    return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))


def _folders(root: Path) -> Iterator[Path]:
    """Every folder of a run or study, from the top; links to folders are not followed."""
    level = [root]
    for _ in range(_DEEPEST):
        below_it: list[Path] = []
        for folder in level:
            try:
                inside = sorted(os.scandir(folder), key=lambda one: one.name)
            except OSError as error:
                if is_shortage(error):
                    raise
                continue
            if any(one.name in (RUN, STUDY) for one in inside) and _is_shown(root, folder):
                yield folder
            names = (one.name for one in inside if one.is_dir(follow_symlinks=False))
            below_it += [folder / n for n in names if not n.startswith(".") and n not in _INSIDE]
        level = below_it


def _is_shown(root: Path, folder: Path) -> bool:
    """Whether it is a run or a study, and every file that would be read really is below the served folder."""
    inner = [file.relative_to(root).as_posix() for file in files_of(folder)]
    own = [folder / name for name in (RUN, STUDY) if os.path.lexists(folder / name)]
    return bool(own) and not own[0].is_dir() and all(below(root, file) is not None for file in inner)


class _Attempts:
    """What of a folder can be read; the rest is its troubles, in words."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self._troubles = folder, list[str]()
        path = folder.relative_to(root).as_posix()
        self.path = _text(path, longest=len(path))
        self._shown = self.path == path

    def __call__(self, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except Exception as error:
            if is_shortage(error):
                raise
            reason = str(error).replace(f"{self.folder}{os.sep}", "") or type(error).__name__
            self._troubles.append(_text(reason))
            return otherwise

    @property
    def troubles(self) -> str:
        more = [] if self._shown else ["its name is not text, so its page cannot be asked for"]
        return "; ".join(dict.fromkeys([*self._troubles, *more]))


def _read(root: Path, folder: Path) -> ListedRun:
    attempt, nothing = _Attempts(root, folder), list[dict[str, str]]()
    rows = attempt(lambda: _rows(folder / "metrics.csv"), nothing)
    exams = attempt(lambda: len(list(folder.glob("exams/*/result.json"))), 0)
    accuracy = attempt(lambda: _predicted(folder) or _trained(rows), None)
    score, (value, low, high) = accuracy or ("Accuracy", (None, None, None))
    model, data, state, started, is_random = attempt(lambda: _facts(folder), ("", "", "damaged", "", False))
    return ListedRun(
        attempt.path,
        _text(folder.name),
        _text(model),
        _text(data),
        state,
        exams,
        len(rows),
        value,
        low,
        high,
        _text(started),
        attempt.troubles,
        score,
        random_weights=is_random,
    )


def _read_study(root: Path, folder: Path) -> ListedRun:
    attempt = _Attempts(root, folder)
    facts = attempt(lambda: study_facts(folder), StudyFacts((), (), (), 0, 0, (), ""))
    state = "interrupted" if facts.missing else "done"
    lacking = [f"not complete: {facts.missing} of its parts are missing"] if facts.missing else []
    lacking += [f"failed: {_text(', '.join(facts.failed))}"] if facts.failed else []
    return ListedRun(
        attempt.path,
        _text(folder.name),
        _text(", ".join(facts.models)),
        _text(", ".join(facts.data)),
        state if facts.arms else "damaged",
        facts.exams,
        0,
        None,
        None,
        None,
        _text(facts.time),
        attempt.troubles or "; ".join(lacking),
        kind="study",
    )


def _facts(folder: Path) -> tuple[Any, Any, str, Any, bool]:
    """Model, data, state, start, and whether its weights are random."""
    read_plain(folder / RUN)  # and so a plain file
    run = Run.open(folder)
    options = run.record.get("options")
    data = options.get("data") if isinstance(options, dict) else None
    is_random = run.model.get("random_weights") is True
    model = " + ".join([str(run.model.get("name") or ""), *_operations(run.record)])
    return model, data or "", run.state, run.record.get("time") or "", is_random


def _operations(record: dict[str, Any]) -> list[str]:
    """Those that `vitscope operate` did to the model named in its record; a model of a training names its own."""
    done, options = record.get("surgery"), record.get("options")
    asked = options.get("operations") if isinstance(options, dict) else None
    if not isinstance(done, list):
        return []
    if isinstance(asked, list) and asked:  # what is done includes earlier ones
        return [str(name) for one in asked if isinstance(one, dict) for name in one]
    return [str(one.get("operation")) for one in done if isinstance(one, dict)]


def _text(value: Any, longest: int = _LONGEST) -> str:
    """As every encoding can hold it."""
    return str(value)[:longest].encode("utf-8", "replace").decode()


def _predicted(folder: Path) -> Score | None:
    for exam, (quantity, label) in EXAM_SCORES.items():
        rows = [row for row in _rows(folder / _csv(exam)) if row.get("quantity") == quantity]
        if rows:
            return _numbers(rows[0], ("value", "low", "high"), label)
    return None


def _trained(rows: list[dict[str, str]]) -> Score | None:
    if not rows:
        return None
    columns, label = task_score(rows[-1])
    return _numbers(rows[-1], columns, label)


def _numbers(row: dict[str, str], columns: tuple[str, str, str], label: str) -> Score | None:
    try:
        value, low, high = (float(row[name]) for name in columns)
    except (KeyError, TypeError, ValueError):
        return None
    return (label, (value, low, high)) if all(map(math.isfinite, (value, low, high))) else None
