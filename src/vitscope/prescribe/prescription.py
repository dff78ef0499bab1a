"""What a rule is, and what it says: the evidence, whether that calls for an operation, which one, what it would cost.

A rule is a function from a diagnosis to a finding, registered with what it rests on; held against the model, a finding
becomes a prescription.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from vitscope.core import pd
from vitscope.core.statistics import Estimate, HasEstimate
from vitscope.prescribe.examined_model import ExaminedModel
from vitscope.surgery import Comparison

State = Literal["prescribed", "not needed", "impossible", "unknown"]


@dataclass(frozen=True)
class Evidence(HasEstimate[float]):
    """A measured number with its 95 % interval, and what it is held against."""

    exam: str
    quantity: str
    estimate: Estimate[float]
    n: int  # images
    threshold: float
    calls: bool  # the whole interval lies above the threshold

    @classmethod
    def above(cls, exam: str, quantity: str, numbers: Sequence[float], n: int, threshold: float) -> Evidence:
        """A number (value, low, high) that calls for an operation if all of its interval is above the threshold."""
        estimate = Estimate(*map(float, numbers))
        return cls(exam, quantity, estimate, n, threshold, estimate.low >= threshold)

    def __str__(self) -> str:
        side = "above" if self.calls else "not clearly above"
        interval = f"[{self.low:.3g}, {self.high:.3g}]"
        return f"{self.quantity}: {self.value:.3g} {interval}, {side} {self.threshold:.3g} (n = {self.n})"


@dataclass(frozen=True)
class Finding:
    """What a rule makes of the results; no operation where the model has nothing to operate on."""

    calls: bool
    reason: str
    evidence: tuple[Evidence, ...] = ()
    operation: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """A rule and what it rests on; `needs` are exams it cannot do without, `refines` such that make it more exact.

    `aims` are the numbers it wants to change, as EXAM.QUANTITY.
    """

    name: str
    decide: Callable[[ExaminedModel], Finding]
    claim: str
    papers: str
    caution: str
    needs: tuple[str, ...]
    refines: tuple[str, ...] = ()
    aims: tuple[str, ...] = ()
    instead_of: str | None = None


RULES: dict[str, Rule] = {}
Decide = Callable[[ExaminedModel], Finding]


def rule(**about: Any) -> Callable[[Decide], Decide]:
    """Register a function as the rule of its name."""

    def register(decide: Decide) -> Decide:
        RULES[decide.__name__] = Rule(decide.__name__, decide, **about)
        return decide

    return register


@dataclass(frozen=True)
class Prescription:
    """One rule on one model.

    Attributes:
        rule: Its name.
        claim: The statements of the papers it rests on.
        papers: What they found.
        state: prescribed; not needed (the numbers do not call for it); impossible (the model does not allow it);
            unknown (an exam is missing).
        reason: Why, in one sentence.
        caution: When it need not help.
        operation: A name of `vitscope.surgery.OPERATIONS`; None where nothing in the model has to change.
        arguments: Of the operation.
        evidence: What was measured.
        missing: Exams that would decide, or refine, it.
        cost: Parameters, FLOPs and outputs before and after, measured by operating on a copy.
        instead_of: A rule that answers the same evidence; the two are not applied together unless both are named.
    """

    rule: str
    claim: str
    papers: str
    state: State
    reason: str
    caution: str
    operation: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()
    cost: Comparison | None = None
    instead_of: str | None = None

    @property
    def applicable(self) -> bool:
        """Whether the operation can be done on this model, called for or not."""
        return self.operation is not None and self.cost is not None


@dataclass(frozen=True)
class Prescriptions:
    """What every rule says about the model of a run."""

    model: str
    run: str
    rules: tuple[Prescription, ...]

    def __getitem__(self, rule: str) -> Prescription:
        return next(p for p in self.rules if p.rule == rule)

    @property
    def prescribed(self) -> tuple[Prescription, ...]:
        """The prescriptions of the rules that the diagnosis calls for, in the order of the rules."""
        return tuple(p for p in self.rules if p.state == "prescribed")

    def table(self) -> pd.DataFrame:
        """A row per piece of evidence: rule, claim, state, exam, quantity, value, low, high, n, threshold."""
        rows = [
            (p.rule, p.claim, p.state, e.exam, e.quantity, *e.estimate, e.n, e.threshold)
            for p in self.rules
            for e in p.evidence
        ]
        names = ["rule", "claim", "state", "exam", "quantity", "value", "low", "high", "n", "threshold"]
        return pd.DataFrame(rows, columns=names)
