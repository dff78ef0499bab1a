"""One statement of the papers, the number that decides about it on a model, and the rule by which it does.

A verdict follows from the size of an effect and its 95 % interval, never from a count of units or layers: it can not
say the opposite of the number beside it, and what holds for an effect does not hold for the same effect with the
other sign. The rule is part of the claim, written down before anything is measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from vitscope.core import pd
from vitscope.core.statistics import Estimate, HasEstimate

Judgement = Literal["holds", "does not hold", "inconclusive"]
ONE_TRAINING = "one training each: says nothing about another training"


@dataclass(frozen=True)
class Rule:
    """Where the interval of the number has to lie: above or below a bound, or within plus and minus the bound."""

    side: Literal["above", "below", "within"]
    bound: float = 0.0

    def judge(self, value: float, low: float, high: float) -> Judgement:
        """Decided only if the interval, and the value in any case, lies on one side; unknown ends decide nothing."""
        if any(math.isnan(number) for number in (value, low, high)):
            return "inconclusive"
        least, most = min(value, low), max(value, high)
        if self.side == "within":
            holds = -self.bound < least and most < self.bound
            fails = least > self.bound or most < -self.bound
        else:
            holds, fails = least > self.bound, most < self.bound
            if self.side == "below":
                holds, fails = fails, holds
        return "holds" if holds else "does not hold" if fails else "inconclusive"

    def words(self, unit: str = "") -> str:
        """The rule as a reader needs it beside a verdict."""
        bound = f"{self.bound:g}{f' {unit}' if unit and self.bound else ''}"
        if self.side == "within":
            return (
                f"holds if the 95 % interval lies between -{bound} and +{bound}, does not hold if it lies outside, "
                "inconclusive if it contains one of the two"
            )
        other = "below" if self.side == "above" else "above"
        return (
            f"holds if the 95 % interval lies {self.side} {bound}, does not hold if it lies {other}, "
            f"inconclusive if it contains {bound}"
        )


@dataclass(frozen=True)
class Verdict(HasEstimate[float]):
    """A claim's judgement on one model, or on one beside another, with all that it rests on."""

    claim: str  # the row of the papers' claims it belongs to
    statement: str
    model: str
    statistic: str  # what the deciding number is
    estimate: Estimate[float]
    unit: str  # that it is in; empty for plain numbers
    over: str  # what the interval is over
    rule: Rule
    evidence: str = ""  # further numbers, which decide nothing
    scope: str = ""  # how far the verdict carries
    lacking: str = ""  # why nothing can be decided, whatever the interval

    @property
    def judgement(self) -> Judgement:
        """What the rule makes of the interval."""
        return "inconclusive" if self.lacking else self.rule.judge(*self.estimate)

    @property
    def number(self) -> str:
        """The deciding number with its interval."""
        digits = ".1f" if self.unit in ("%", "points") else ".3g"
        sign = "+" if self.rule.bound == 0 or self.rule.side == "within" else ""
        value, low, high = (f"{number:{sign}{digits}}" for number in self.estimate)
        interval = "without an interval" if math.isnan(self.low) else f"[{low}, {high}]"
        return f"{value}{f' {self.unit}' if self.unit else ''} {interval}"

    @property
    def found(self) -> str:
        """What was measured, in one line."""
        number = f"{self.number}{', from' if math.isnan(self.low) else ' over'} {self.over}"
        return "; ".join(part for part in (number, self.evidence) if part)

    @property
    def reach(self) -> str:
        """How far it carries, and what is missing for a decision."""
        return "; ".join(part for part in (self.lacking, self.scope) if part)

    @property
    def decided_by(self) -> str:
        """The number and the rule, the same for every model."""
        return f"{self.statistic}; {self.rule.words(self.unit)}"


COLUMNS = tuple(
    "claim statement model verdict statistic value low high unit over rule evidence scope".split()
)


def verdict_table(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """A row per verdict with all that it rests on."""
    rows = [
        {
            **vars(v),
            **v.estimate._asdict(),
            "verdict": v.judgement,
            "rule": v.rule.words(v.unit),
            "scope": v.reach,
        }
        for v in verdicts
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))
