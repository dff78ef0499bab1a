"""What was tried, as rows of a small JSON file, and the table that is made of it."""

import json
import platform
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vitscope.results.atomic import atomic_write
from vitscope.results.provenance import versions

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "reliability.json"
COLUMNS = ("section", "what was tried", "cases", "findings", "seconds", "seed", "when")


class Finding(AssertionError):
    """Something that should not be so, in words; `once_more` is what to type to see it again."""

    def __init__(self, what: str, once_more: str = "") -> None:
        super().__init__(what)
        self.once_more = once_more


class CannotTry(Exception):
    """The machine does not allow it (no network, no right to mount); the row says so."""


@dataclass(frozen=True)
class Trial:
    """What a kind of cases is asked for."""

    seed: int
    cases: int
    tell: Callable[[int], None] = lambda done: None  # how many cases are done
    case: int | None = None  # only this one


@dataclass(frozen=True)
class Kind:
    """One kind of cases: what is tried, how often by default, and the function that tries it.

    `run` gives how many cases it tried, and raises a `Finding` or returns several.
    """

    name: str
    what: str
    cases: int
    run: Callable[[Trial], tuple[int, list[Finding]]]


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    section: str
    kind: str
    what: str
    cases: int
    findings: int
    seconds: float
    command: str
    seed: int
    note: str = ""
    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d"))
    versions: dict[str, str] = field(default_factory=lambda: dict(versions()))
    system: str = field(default_factory=lambda: f"{platform.system()} {platform.machine()}")


def read(file: Path = FILE) -> list[dict[str, Any]]:
    """The rows of earlier runs."""
    return json.loads(file.read_text())["rows"] if file.exists() else []


def keep(rows: Iterable[Row], file: Path = FILE) -> None:
    """Write rows down, in the place of those of the same section and kind."""
    new = {(row.section, row.kind): asdict(row) for row in rows}
    kept = {(row["section"], row["kind"]): row for row in read(file)}
    merged = sorted((kept | new).values(), key=lambda row: (row["section"], row["kind"]))
    atomic_write(file, json.dumps({"schema": 1, "rows": merged}, indent=1) + "\n")


HEAD = """# Reliability

What was tried with this version, and what came of it. `make prove` tries it again (under an hour on 2 cores) and writes
the numbers into `docs/reliability.json`; `python -m tests.prove --write docs/reliability.md` makes this page of them.
One section, or one kind of cases: `python -m tests.prove faults --seed 3 --cases 50`, `python -m tests.prove input
--only pictures`. A finding is printed with what to type to see it again, and the command ends with a code that is
not 0.

- **faults**: a command is disturbed (killed at a random moment, the disk is full, the clock jumps ...). It ends in the
  result of the undisturbed one, equal to the bit (but for times), or in one clear line with nothing lost.
- **input**: files and arguments that are wrong. Each is refused in one line of our own, or means what it says; no
  traceback, no file touched, no code run, nothing that takes more than 10 seconds.
- **security**: run folders and requests of strangers run no code, reach nothing outside, and script no page.
- **scale**: what time and memory grow with.
"""


def page(rows: Iterable[dict[str, Any]]) -> str:
    """The table, as Markdown."""
    rows = list(rows)
    lines = [HEAD, "| " + " | ".join(COLUMNS) + " |", "|---|---|---:|---:|---:|---:|---|"]
    for row in rows:
        what = row["what"] + (f" ({row['note']})" if row["note"] else "")
        cells = [row["section"], what, f"{row['cases']:,}", row["findings"], f"{row['seconds']:.0f}"]
        lines.append("| " + " | ".join(map(str, [*cells, row["seed"], row["date"]])) + " |")
    together = sum(row["cases"] for row in rows), sum(row["findings"] for row in rows)
    lines.append(f"\n{together[0]:,} cases, {together[1]} findings.")
    if rows:
        newest = max(rows, key=lambda row: row["date"])
        said = ", ".join(f"{name} {version}" for name, version in newest["versions"].items())
        lines.append(f"\nWith {said}, on {newest['system']}.")
    return "\n".join(lines) + "\n"
