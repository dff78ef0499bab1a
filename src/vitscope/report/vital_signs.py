"""Vital signs: per exam what the papers expect, what was found on each model, and whether the two agree."""

from collections.abc import Sequence
from dataclasses import dataclass

from vitscope.claims import attention_verdicts, feature_verdicts, robustness_verdicts
from vitscope.claims.verdict import Judgement
from vitscope.report.numbers import spoken, with_interval
from vitscope.report.subject import RunSubject
from vitscope.report.tables import whole_rows
from vitscope.results import Result

_CLAIMS = (feature_verdicts, attention_verdicts, robustness_verdicts)
_SHOWN = 2  # numbers of an exam about which the papers claim nothing that one model can decide


@dataclass(frozen=True)
class Finding:
    """What one model shows; without a judgement where there is no claim to hold it against."""

    subject: RunSubject
    found: str
    judgement: Judgement | None = None


@dataclass(frozen=True)
class Sign:
    """One line of the summary."""

    exam: str
    title: str
    claim: str  # the papers' claim it belongs to, or ""
    expected: str  # the claim, or what the papers found if it is none
    findings: list[Finding]


def vital_signs(exam: str, subjects: Sequence[RunSubject]) -> list[Sign]:
    """The lines of one exam: a line per claim, or one with the first numbers where nothing is claimed."""
    having = [s for s in subjects if s.applies(exam)]
    title = having[0].results[exam].about.title if having else exam
    lines: dict[tuple[str, str], list[Finding]] = {}
    for subject in having:
        for judge in _CLAIMS:
            for verdict in judge(subject.name, {exam: subject.results[exam]}):
                line = lines.setdefault((verdict.claim, verdict.statement), [])
                line.append(Finding(subject, verdict.found, verdict.judgement))
    if lines:
        return [Sign(exam, title, claim, said, found) for (claim, said), found in lines.items()]
    found = [Finding(s, text) for s in having if (text := headline(s.results[exam]))]
    return [Sign(exam, title, "", having[0].results[exam].about.papers, found)] if found else []


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
