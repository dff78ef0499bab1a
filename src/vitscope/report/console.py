"""Results on the console."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vitscope.claims import Verdict
from vitscope.core import pd
from vitscope.core.errors import in_one_line
from vitscope.report.subject import images_of, is_augmented
from vitscope.report.verdicts import by_chance
from vitscope.results import Result
from vitscope.results.numbers import label, with_interval

EVIDENCE = "n: how many images a number is about (throughput: batches)"


class SafeConsole(Console):
    """What steers a terminal is written out, as in errors; names of files and models may hold it."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Text of a string; its line breaks stay."""
        return super().render_str("\n".join(map(in_one_line, text.split("\n"))), **how)


def wide_console() -> Console:
    """A console as wide as the terminal; 140 characters where nobody looks on."""
    return SafeConsole(width=None if sys.stdout.isatty() else 140)


def print_results(results: Mapping[str, Mapping[str, Result]], console: Console | None = None) -> None:
    """Print results by model and exam: a table of what belongs to whole models, one per model of units."""
    console = console or SafeConsole()
    whole: dict[str, pd.DataFrame] = {}
    by_unit: dict[str, dict[str, pd.DataFrame]] = {}
    for model, found in results.items():
        tables = {exam: result.summary() for exam, result in found.items()}
        rows = [t[t["unit"].isna()].assign(exam=exam) for exam, t in tables.items()]
        whole[model] = pd.concat(rows, ignore_index=True)
        by_unit[model] = {exam: t[t["unit"].notna()] for exam, t in tables.items() if t["unit"].notna().any()}
    if any(len(table) for table in whole.values()):
        console.print(_models(whole))
        console.print(f"[dim]{EVIDENCE}[/dim]", highlight=False)
    for line in dict.fromkeys([*_augmented(results), *_of_one_batch(results)]):
        console.print(f"[dim]{escape(line)}[/dim]", highlight=False)
    for model, exams in by_unit.items():
        for table in _units(model, exams, console.width) if exams else ():
            console.print(table)
    if any(by_unit.values()):
        console.print(
            "[dim]value \\[95 % interval over images]; ↓ ↑ the change across the unit leaves out 0[/dim]"
        )


def _models(whole: Mapping[str, pd.DataFrame]) -> Table:
    table = Table("", *whole, "n", box=None, pad_edge=False)
    found = {
        model: {(str(row.exam), label(str(row.exam), row)): row for row in rows.itertuples()}
        for model, rows in whole.items()
    }
    rows = dict.fromkeys(row for numbers in found.values() for row in numbers)
    names = [name for _, name in rows]
    for exam, name in rows:
        shown = name if names.count(name) == 1 else f"{exam}: {name}"
        own = [numbers.get((exam, name)) for numbers in found.values()]
        cells = ["" if row is None else _cell(row) for row in own]
        table.add_row(shown, *cells, counts_of(row.n for row in own if row is not None))
    return table


def counts_of(found: Iterable[Any]) -> str:
    """How many images numbers of one line rest on: once if that is the same for all, else for one after the other."""
    counts = [str(n) for n in found]
    return counts[0] if len(set(counts)) == 1 else " | ".join(counts)


def _augmented(results: Mapping[str, Mapping[str, Result]]) -> Iterator[str]:
    """A line for each exam that did not see images as they are, whose loss is another than on plain ones."""
    for found in results.values():
        for exam, result in found.items():
            if is_augmented(result):
                yield f"{exam}: on {result.n} images of {images_of(result)}"


def _of_one_batch(results: Mapping[str, Mapping[str, Result]]) -> Iterator[str]:
    """A line for each exam whose numbers have no interval because there was one batch only."""
    for found in results.values():
        for exam, result in found.items():
            rows = result.summary()
            bare = rows[rows["low"].isna() & rows["value"].notna()]["quantity"].unique()
            if getattr(result, "batches", None) == 1 and len(bare):
                yield f"{exam}: {', '.join(bare)} without an interval, from 1 batch; it takes 2 or more"


def _units(model: str, exams: Mapping[str, pd.DataFrame], width: int) -> Iterator[Table]:
    """The units of a model, a column per exam; as many tables as it takes to fit them into the width."""
    rows = pd.concat(exams.values(), ignore_index=True).sort_values("depth", kind="stable")
    units = dict.fromkeys(
        zip(rows["unit"], rows["kind"], strict=True)
    )  # as they run, whichever exam is first
    names = [unit for unit, _ in units]
    columns = {_heading(exam, rows): _column(rows, names) for exam, rows in exams.items()}
    counts = {
        _heading(exam, rows): counts_of(dict.fromkeys(rows["n"].tolist())) for exam, rows in exams.items()
    }
    taken = max(len(unit) for unit, _ in units) + max(len(kind) for _, kind in units) + 4
    for number, group in enumerate(_groups(columns, width - taken)):
        table = Table("unit", "kind", *group, box=None, pad_edge=False)
        if number == 0:
            table.title, table.title_justify = model, "left"
        for row, (unit, kind) in enumerate(units):
            cells = [columns[heading][row] for heading in group]
            if any(cells):
                table.add_row(unit, kind, *cells)
        table.add_row("n", "", *(counts[heading] for heading in group))
        yield table


def _groups(columns: Mapping[str, list[str]], width: int) -> Iterator[list[str]]:
    """The headings, cut into pieces that fit into the width."""
    group: list[str] = []
    used = 0
    for heading, cells in columns.items():
        own = max(len(text) for text in (heading, *cells)) + 2
        if group and used + own > width:
            yield group
            group, used = [], 0
        group.append(heading)
        used += own
    yield group


def _heading(exam: str, rows: pd.DataFrame) -> str:
    quantity = str(_level(rows))
    return quantity.replace("_", " ") if quantity == exam else f"{exam}: {quantity}".replace("_", " ")


def _level(rows: pd.DataFrame) -> Any:
    """The quantity that a column shows: the first that is no change."""
    return rows[rows["quantity"] != "change"]["quantity"].iloc[0]


def _column(rows: pd.DataFrame, units: Sequence[str]) -> list[str]:
    """Value, interval and the direction of the change, per unit; empty where there is none."""
    shown, cells = _level(rows), []
    for unit in units:
        own = rows[rows["unit"] == unit]
        level = [_cell(r) for r in own[own["quantity"] == shown].itertuples()]
        change = [_arrow(r) for r in own[own["quantity"] == "change"].itertuples()]
        cells.append(" ".join([*level[:1], *change[:1]]).rstrip())
    return cells


def _cell(row: Any) -> str:
    return escape(with_interval(row))


def _arrow(row: Any) -> str:
    return "↓" if row.high < 0 else "↑" if row.low > 0 else " "


def print_verdicts(verdicts: Sequence[Verdict], console: Console | None = None) -> None:
    """Print claim by claim the number and the rule that decide, then the verdict on each model."""
    console = console or SafeConsole()
    colours = {"holds": "green", "does not hold": "red", "inconclusive": "yellow"}
    claims: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        claims.setdefault((verdict.claim, verdict.statement), []).append(verdict)
    for (claim, statement), found in claims.items():
        console.print(f"[bold]{claim} {escape(statement)}[/]", highlight=False)
        console.print(Padding(f"[dim]{escape(found[0].decided_by)}[/]", (0, 0, 0, 2)), highlight=False)
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 2))
        for v in found:
            told = "; ".join(part for part in (v.found, v.reach) if part)
            table.add_row(escape(v.model), f"[{colours[v.judgement]}]{v.judgement}[/]", escape(told))
        console.print(table, highlight=False)
    if chance := by_chance(len(verdicts)):
        console.print(f"[dim]{chance}[/]", highlight=False)


@contextmanager
def notes_on_stderr(typed: Callable[[str], str] = str) -> Iterator[None]:
    """Print warnings as one line each, once, without the place in the code that a user does not care about.

    `typed` makes of a warning what is printed.
    """
    printed: set[str] = set()

    def show(message: str) -> None:
        note = f"note: {typed(message)}"
        if note not in printed:
            printed.add(note)
            print(note, file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: show(str(message))
        yield
