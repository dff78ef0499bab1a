"""Tables of the page: what is shown at once, and all numbers, folded away and packed as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vitscope.claims import Verdict, verdict_table
from vitscope.core import pd
from vitscope.report.inline import packed
from vitscope.results import Result, directions
from vitscope.results.numbers import label, plain, spoken, with_interval
from vitscope.results.table import COLUMNS

_MOST_ROWS = 12  # of a table that stands open


@dataclass(frozen=True)
class Grid:
    """A table ready to be written: column names and cells, the first `words` of which are not numbers."""

    columns: list[str]
    cells: list[list[str]]
    words: int

    @property
    def is_long(self) -> bool:
        """Whether it is better folded away at first."""
        return len(self.cells) > _MOST_ROWS


@dataclass(frozen=True)
class Download:
    """All numbers of one table of one model; the page's script shows them and saves them as a file."""

    model: str
    name: str
    file: str
    rows: int
    csv: str  # packed


def whole_grid(results: Sequence[tuple[str, Result]]) -> Grid | None:
    """What belongs to whole models: a row per quantity, a column per model."""
    found: dict[str, dict[str, str]] = {}
    for name, result in results:
        for quantity, row in whole_rows(result):
            found.setdefault(quantity, {})[name] = with_interval(row)
    names = [name for name, _ in results]
    cells = [
        [spoken(quantity), *(by_model.get(name, "–") for name in names)]
        for quantity, by_model in found.items()
    ]
    return Grid(["quantity", *names], cells, words=1) if cells else None


def whole_rows(result: Result) -> list[tuple[str, Any]]:
    """The rows of the summary that belong to no single unit, each with a name of its own."""
    summary = result.summary()
    rows = summary[summary["unit"].isna() & summary["value"].notna()]
    own = [c for c in rows.columns if c not in (*COLUMNS, "condition") and rows[c].notna().any()]
    names = [label(result.exam, row) for row in rows.itertuples()]
    told = [
        name if names.count(name) == 1 else f"{name} ({', '.join(_words(row, own))})"
        for name, row in zip(names, rows.itertuples(), strict=True)
    ]
    return list(zip(told, rows.itertuples(), strict=True))


def counts_grid(results: Sequence[tuple[str, Result]]) -> Grid | None:
    """Across how many units of each kind a quantity falls or rises."""
    parts = [directions(result.table()).assign(model=name) for name, result in results]
    counted = pd.concat(parts, ignore_index=True)
    if counted.empty:
        return None
    return grid(counted[["model", "kind", "units", "falls", "rises", "unclear"]])


def grid(table: pd.DataFrame) -> Grid:
    """A table, words first; columns that hold nothing are left out."""
    shown = table.loc[:, table.notna().any()]
    words = [c for c in shown.columns if not pd.api.types.is_numeric_dtype(shown[c])]
    ordered = shown[[*words, *(c for c in shown.columns if c not in words)]]
    cells = [[plain(v) for v in row] for row in ordered.itertuples(index=False)]
    return Grid(list(ordered.columns), cells, words=len(words))


def downloads(model: str, result: Result) -> list[Download]:
    """Every table of a result that has rows, as the run folder holds it."""
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in model)
    return [
        Download(model, name, f"{safe}-{name}.csv", len(table), packed(table.to_csv(index=False)))
        for name, table in result.tables().items()
        if len(table)
    ]


def verdicts_download(verdicts: Sequence[Verdict]) -> Download:
    """All verdicts with what they rest on."""
    table = verdict_table(verdicts)
    return Download("all models", "verdicts", "verdicts.csv", len(table), packed(table.to_csv(index=False)))


def _words(row: Any, columns: Sequence[str]) -> list[str]:
    """What an exam's own columns say about a row; a flag by its name, where it is set."""
    words = []
    for column in columns:
        value = getattr(row, column, None)
        if pd.isna(value) or value is False:
            continue
        words.append(column if value is True else f"{column} {plain(value)}")
    return words
