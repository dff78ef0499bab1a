"""What the page says about an exam: vital signs, readings, tables.

A vital sign is what the papers expect, what was found on each model, and whether the two agree. A reading is what an
exam shows on one model, in two sentences made from its numbers: a function registered by the exam's name; an exam
without one gets its first numbers. Short tables stand open; all numbers are folded away and packed as CSV.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from vitscope.claims import Verdict, verdict_table
from vitscope.claims.outputs import STATEMENT, confidence_found
from vitscope.claims.verdict import Judgement
from vitscope.core import pd
from vitscope.findings.prediction import PredictionResult
from vitscope.report.inline import packed
from vitscope.report.subject import RunSubject
from vitscope.report.verdicts import single_verdicts
from vitscope.results import Result, UnitRow, directions
from vitscope.results.numbers import READINGS, capital, label, plain, spoken, with_interval
from vitscope.results.table import COLUMNS

_MOST_ROWS = 12  # of a table that stands open
_SHOWN = 2  # numbers of an exam about which the papers claim nothing that one model can decide


@dataclass(frozen=True)
class ModelFinding:
    """What one model shows; without a verdict where it alone decides nothing."""

    subject: RunSubject
    found: str
    verdict: Verdict | None = None

    @property
    def judgement(self) -> Judgement | None:
        """Whether the claim holds, if there is one to judge."""
        return self.verdict.judgement if self.verdict else None

    @property
    def reach(self) -> str:
        """How far the verdict carries."""
        return self.verdict.reach if self.verdict else ""


@dataclass(frozen=True)
class Sign:
    """One line of the summary."""

    exam: str
    title: str
    claim: str  # the papers' claim it belongs to, or ""
    expected: str  # the claim, or what the papers found if it is none
    findings: list[ModelFinding]
    decided_by: str = ""  # the number and the rule of the verdicts


def vital_signs(exam: str, subjects: Sequence[RunSubject]) -> list[Sign]:
    """The lines of one exam: a line per claim, or one with the first numbers where nothing is claimed."""
    having = [s for s in subjects if s.applies(exam)]
    title = having[0].results[exam].about.title if having else exam
    lines: dict[tuple[str, str, str], list[ModelFinding]] = {}
    for subject in having:
        for verdict in single_verdicts(subject.name, {exam: subject.results[exam]}):
            line = lines.setdefault((verdict.claim, verdict.statement, verdict.decided_by), [])
            line.append(ModelFinding(subject, verdict.found, verdict))
    if lines:
        return [Sign(exam, title, claim, said, found, rule) for (claim, said, rule), found in lines.items()]
    if exam == "prediction":
        return [Sign(exam, title, "F1", STATEMENT, [ModelFinding(s, _confidence(s)) for s in having])]
    found = [ModelFinding(s, text) for s in having if (text := headline(s.results[exam]))]
    return [Sign(exam, title, "", having[0].results[exam].about.papers, found)] if found else []


def _confidence(subject: RunSubject) -> str:
    result = subject.results["prediction"]
    assert isinstance(result, PredictionResult)
    return confidence_found(result, subject.augmentation)


def headline(result: Result) -> str:
    """The first numbers of a result in a few words."""
    rows = [(name, row) for name, row in whole_rows(result) if row.value == row.value]
    if rows:
        return "; ".join(f"{spoken(name)} {with_interval(row)}" for name, row in rows[:_SHOWN])
    summary = result.summary()
    known = summary[summary["unit"].notna() & summary["value"].notna()]
    if known.empty:
        return ""
    quantity = known["quantity"].iloc[0]
    rows_of_it = known[known["quantity"] == quantity]
    values, name = rows_of_it["value"], spoken(str(quantity))
    if len(values) == 1:
        (row,) = rows_of_it.itertuples()
        return f"{name} {with_interval(row)} after {row.unit}"
    return f"{name} {values.min():.3g} to {values.max():.3g} over {len(values)} units"


def reading(result: Result) -> str:
    """Two sentences about a result that has rows."""
    own = READINGS.get(result.exam)
    text = own(result) if own else ""
    if text:
        return text
    first = headline(result)
    return f"{capital(first)}." if first else ""


def taken(results: Sequence[tuple[str, Result]]) -> list[str]:
    """A sentence for each way in which the maps of some models were taken; `results` are by model."""
    models: dict[str, list[str]] = {}
    for model, result in results:
        units: tuple[UnitRow, ...] = getattr(result, "units", ())
        for way in dict.fromkeys(unit.taken for unit in units if unit.taken):
            models.setdefault(way, []).append(model)
    return [f"{', '.join(names)}: {_in_words(way)}." for way, names in models.items()]


def _in_words(way: str) -> str:
    side, activation = way.split(" ", 1)
    if side == "after":
        return f"the map after a unit is what the next unit reads, after the {activation} that follows the addition"
    return f'the map after a unit is the sum, before the {activation} that follows it (`stream="sum"`)'


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


def classes_grid(results: Sequence[tuple[str, Result]]) -> Grid | None:
    """A row per class, and model where there are several, of results that say what they show by class."""
    told = [
        (name, result, shown) for name, result in results if (shown := getattr(result, "shown_by_class", ()))
    ]
    if not told:
        return None
    quantities, several = told[0][2], len(results) > 1
    cells = []
    for name, result, _ in told:
        for row in result.tables()["classes"].to_dict("records"):
            words = [name, str(row["name"])] if several else [str(row["name"])]
            cells.append([*words, *(_of_class(row, quantity) for quantity in quantities)])
    heads = [*(["model"] if several else []), "class", *(spoken(quantity) for quantity in quantities)]
    return Grid(heads, cells, words=1 + several)


def _of_class(row: Mapping[Any, Any], quantity: str) -> str:
    if pd.isna(row.get(quantity)):  # no masks, or no pixel
        return "–"
    value, low, high = (float(row[f"{quantity}{end}"]) for end in ("", "_low", "_high"))
    return with_interval(SimpleNamespace(quantity=quantity, value=value, low=low, high=high))


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
