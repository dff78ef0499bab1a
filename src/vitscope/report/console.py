"""Results on the console."""

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from vitscope.report.numbers import with_interval
from vitscope.results import Result


def print_results(results: Mapping[str, Mapping[str, Result]], console: Console | None = None) -> None:
    """Print results by model and exam: a table of what belongs to whole models, one per model of units."""
    console = console or Console()
    whole: dict[str, pd.DataFrame] = {}
    by_unit: dict[str, dict[str, pd.DataFrame]] = {}
    for model, found in results.items():
        tables = {exam: result.summary() for exam, result in found.items()}
        whole[model] = pd.concat([t[t["unit"].isna()] for t in tables.values()], ignore_index=True)
        by_unit[model] = {exam: t[t["unit"].notna()] for exam, t in tables.items() if t["unit"].notna().any()}
    if any(len(table) for table in whole.values()):
        console.print(_models(whole))
    for model, exams in by_unit.items():
        if exams:
            console.print(_units(model, exams))
    if any(by_unit.values()):
        console.print(
            "[dim]value \\[95 % interval over images]; ↓ ↑ the change across the unit leaves out 0[/dim]"
        )


def _models(whole: Mapping[str, pd.DataFrame]) -> Table:
    table = Table("", *whole, box=None, pad_edge=False)
    found = {model: {row.quantity: _cell(row) for row in rows.itertuples()} for model, rows in whole.items()}
    for quantity in dict.fromkeys(q for rows in whole.values() for q in rows["quantity"]):
        table.add_row(quantity, *(found[model].get(quantity, "") for model in whole))
    table.add_row("images", *(str(rows["n"].max()) if len(rows) else "" for rows in whole.values()))
    return table


def _units(model: str, exams: Mapping[str, pd.DataFrame]) -> Table:
    levels = {exam: rows[rows["quantity"] != "change"]["quantity"].iloc[0] for exam, rows in exams.items()}
    table = Table("unit", "kind", *(q.replace("_", " ") for q in levels.values()), box=None, pad_edge=False)
    table.title, table.title_justify = model, "left"
    units = dict.fromkeys(
        pair for rows in exams.values() for pair in zip(rows["unit"], rows["kind"], strict=True)
    )
    for unit, kind in units:
        cells = []
        for exam, rows in exams.items():
            own = rows[rows["unit"] == unit]
            level = [_cell(r) for r in own[own["quantity"] == levels[exam]].itertuples()]
            change = [_arrow(r) for r in own[own["quantity"] == "change"].itertuples()]
            cells.append(" ".join([*level[:1], *change[:1]]))
        table.add_row(unit, kind, *cells)
    return table


def _cell(row: Any) -> str:
    return escape(with_interval(row))


def _arrow(row: Any) -> str:
    return "↓" if row.high < 0 else "↑" if row.low > 0 else " "


@contextmanager
def notes_on_stderr() -> Iterator[None]:
    """Print warnings as one line each, without the place in the code that a user does not care about."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: print(f"note: {message}", file=sys.stderr)
        yield
