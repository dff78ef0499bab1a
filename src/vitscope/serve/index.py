"""The runs in a folder, each with what an index shows of it."""

import csv
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vitscope.errors import BadResult
from vitscope.results import Run
from vitscope.serve.below import below

# Folders inside a run that hold no other runs.
_INSIDE = {"exams", "figures", "checkpoints"}
Fingerprint = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Entry:
    """One run; `accuracy` is that of its predictions exam, else of its last epoch."""

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

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


class Index:
    """Finds runs; a run is read again only when one of its files has changed, or while it is under way."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._known: dict[Path, tuple[Fingerprint, Entry]] = {}

    def entries(self) -> list[Entry]:
        """Every run below the folder, the latest first."""
        found = [self.entry(folder) for folder in _folders(self.root)]
        return sorted(found, key=lambda entry: (entry.started, entry.path), reverse=True)

    def entry(self, folder: Path) -> Entry:
        """One run."""
        mark, known = fingerprint(folder), self._known.get(folder)
        if known is not None and known[0] == mark and known[1].state != "running":
            return known[1]
        entry = _read(self.root, folder)
        self._known[folder] = (mark, entry)
        return entry

    def find(self, path: str) -> Path | None:
        """The folder of the run that a request names; None if there is none."""
        folder = below(self.root, "" if path == "." else path)
        return folder if folder is not None and _is_run(self.root, folder) else None


def files_of(folder: Path) -> list[Path]:
    """The files that a page of a run is made from."""
    alone = [folder / name for name in ("run.json", "metrics.csv", "exams/prediction/prediction.csv")]
    return [file for file in (*alone, *sorted(folder.glob("exams/*/result.json"))) if os.path.lexists(file)]


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
    """The finished epochs of a run's `metrics.csv`; a line that is being written does not count."""
    try:
        text = (folder / "metrics.csv").read_text()
    except (OSError, ValueError):
        return []
    whole = text[: text.rfind("\n") + 1]
    return list(csv.DictReader(whole.splitlines()))


def _folders(root: Path) -> Iterator[Path]:
    for folder, inside, files in os.walk(root):  # does not follow links to folders
        inside[:] = sorted(name for name in inside if not name.startswith(".") and name not in _INSIDE)
        if "run.json" in files and _is_run(root, Path(folder)):
            yield Path(folder)


def _is_run(root: Path, folder: Path) -> bool:
    """Whether it has a `run.json`, and every file that would be read really is below the served folder."""
    inner = [file.relative_to(root).as_posix() for file in files_of(folder)]
    return (folder / "run.json").is_file() and all(below(root, file) is not None for file in inner)


def _read(root: Path, folder: Path) -> Entry:
    path = folder.relative_to(root).as_posix()
    rows = training_rows(folder)
    exams = len(list(folder.glob("exams/*/result.json")))
    known = _predicted(folder) or _trained(rows)
    accuracy: tuple[float | None, float | None, float | None] = known or (None, None, None)
    try:
        run = Run.open(folder)
    except BadResult:
        return Entry(path, folder.name, "", "", "damaged", exams, len(rows), *accuracy, "")
    options = run.record.get("options")
    data = options.get("data") if isinstance(options, dict) else None
    return Entry(
        path,
        folder.name,
        str(run.model.get("name") or ""),
        str(data or ""),
        run.state,
        exams,
        len(rows),
        *accuracy,
        str(run.record.get("time") or ""),
    )


def _predicted(folder: Path) -> tuple[float, float, float] | None:
    try:
        with open(folder / "exams" / "prediction" / "prediction.csv", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row.get("quantity") == "accuracy"]
        return _numbers(rows[0], "value") if rows else None
    except OSError:
        return None


def _trained(rows: list[dict[str, str]]) -> tuple[float, float, float] | None:
    return _numbers(rows[-1], "accuracy") if rows else None


def _numbers(row: dict[str, str], value: str) -> tuple[float, float, float] | None:
    try:
        numbers = float(row[value]), float(row["low"]), float(row["high"])
    except (KeyError, TypeError, ValueError):
        return None
    return numbers if all(number == number for number in numbers) else None
