"""Vital signs: per exam what the papers expect, what was found on each model, and whether the two agree.

What an exam shows on one model, in two sentences made from its numbers.

A reading is a function from a result to text, registered by the name of the exam. An exam without one gets its first
numbers.

Which map after a unit was measured, where an activation follows the unit's addition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vitscope.claims import Verdict
from vitscope.claims.outputs import STATEMENT, confidence_found
from vitscope.claims.verdict import Judgement
from vitscope.findings.prediction import PredictionResult
from vitscope.report.subject import RunSubject
from vitscope.report.tables import whole_rows
from vitscope.report.verdicts import single_verdicts
from vitscope.results import Result, UnitRow
from vitscope.results.numbers import READINGS, spoken, with_interval

_SHOWN = 2  # numbers of an exam about which the papers claim nothing that one model can decide


@dataclass(frozen=True)
class Finding:
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
    findings: list[Finding]
    decided_by: str = ""  # the number and the rule of the verdicts


def vital_signs(exam: str, subjects: Sequence[RunSubject]) -> list[Sign]:
    """The lines of one exam: a line per claim, or one with the first numbers where nothing is claimed."""
    having = [s for s in subjects if s.applies(exam)]
    title = having[0].results[exam].about.title if having else exam
    lines: dict[tuple[str, str, str], list[Finding]] = {}
    for subject in having:
        for verdict in single_verdicts(subject.name, {exam: subject.results[exam]}):
            line = lines.setdefault((verdict.claim, verdict.statement, verdict.decided_by), [])
            line.append(Finding(subject, verdict.found, verdict))
    if lines:
        return [Sign(exam, title, claim, said, found, rule) for (claim, said, rule), found in lines.items()]
    if exam == "prediction":
        return [Sign(exam, title, "F1", STATEMENT, [Finding(s, _confidence(s)) for s in having])]
    found = [Finding(s, text) for s in having if (text := headline(s.results[exam]))]
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
    return f"{first[:1].upper()}{first[1:]}." if first else ""


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
