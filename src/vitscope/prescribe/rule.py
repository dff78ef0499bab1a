"""What a rule is: a function from a diagnosis to an operation, registered with what it rests on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vitscope.prescribe.patient import Patient
from vitscope.prescribe.prescription import Evidence


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
    """A rule and what it rests on; `needs` are exams it cannot do without, `refines` such that make it more exact."""

    name: str
    decide: Callable[[Patient], Finding]
    claim: str
    papers: str
    caution: str
    needs: tuple[str, ...]
    refines: tuple[str, ...] = ()
    instead_of: str | None = None


RULES: dict[str, Rule] = {}
Decide = Callable[[Patient], Finding]


def rule(**about: Any) -> Callable[[Decide], Decide]:
    """Register a function as the rule of its name."""

    def register(decide: Decide) -> Decide:
        RULES[decide.__name__] = Rule(decide.__name__, decide, **about)
        return decide

    return register
