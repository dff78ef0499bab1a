"""Vital signs: per exam what the papers expect, what was found on each model, and whether the two agree."""

from collections.abc import Sequence
from dataclasses import dataclass

from vitscope.claims import Verdict
from vitscope.claims.calibration import STATEMENT, confidence_found
from vitscope.claims.verdict import Judgement
from vitscope.findings.prediction import PredictionResult
from vitscope.report.subject import RunSubject
from vitscope.report.tables import whole_rows
from vitscope.report.verdicts import single_verdicts
from vitscope.results import Result
from vitscope.results.numbers import spoken, with_interval

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
