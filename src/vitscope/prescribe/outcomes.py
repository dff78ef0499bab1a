"""What a treatment did, as a table: first the numbers that its rules are about, then those of the predictions.

A number is that of a whole model. Those that belong to units are means over the units that the rule looks at; they are
not paired, and have no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from vitscope.core.statistics import Estimate
from vitscope.findings.attention import AttentionResult
from vitscope.prescribe.apply import Treatment
from vitscope.prescribe.rules import DEEP, RULES
from vitscope.results import Result
from vitscope.results.numbers import by_name, spoken
from vitscope.results.unit_changes import changes_of, mean_over_units

PREDICTIONS = tuple(f"prediction.{name}" for name in ("accuracy", "nll", "ece", "signed_ece"))
SPECTRUM = ("hessian.nep", "hessian.ape")


class Number(NamedTuple):
    """A quantity with its interval."""

    quantity: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Outcome:
    """One number of every arm."""

    name: str  # as it is said
    aimed: bool  # a rule that was applied is about it
    arms: dict[str, Number | None]  # None: the model has nothing of the kind
    difference: (
        Number | None
    )  # after minus control, paired; None: the exam keeps nothing that could be paired


def outcomes(treatment: Treatment) -> Iterator[Outcome]:
    """A row per number: those that the applied rules aim at, quality and calibration, the spectrum if there is one."""
    rows = treatment.differences()
    effect = {f"{row.exam}.{row.quantity}": _number(row) for row in rows.itertuples()}
    aims = dict.fromkeys(aim for one in treatment.applied for aim in RULES[one.rule].aims)
    for aim in dict.fromkeys((*aims, *PREDICTIONS, *SPECTRUM)):
        exam = aim.partition(".")[0]
        if not all(exam in results for results in treatment.results.values()):
            continue
        arms = {arm: _of_model(results, aim) for arm, results in treatment.results.items()}
        yield Outcome(_SAID.get(aim) or spoken(aim.partition(".")[2]), aim in aims, arms, effect.get(aim))


_SAID = {
    "fourier.change": "change of high frequencies across Convs",
    "variance.change": "change of variance across Convs",
    "attention.entropy": "entropy of deep attention over its bound",
}


def _of_model(results: Mapping[str, Result], aim: str) -> Number | None:
    exam, _, quantity = aim.partition(".")
    result = results[exam]
    if exam in ("fourier", "variance"):
        changes = changes_of(result.summary(), "conv")
        return None if changes is None else _estimated(quantity, changes.mean.estimate)
    if isinstance(result, AttentionResult):
        deep = [i for i, unit in enumerate(result.units) if unit.depth >= DEEP]
        if not deep:
            return None
        shares = [numbers[result.layers][deep] / result.bound[deep] for numbers in result.of(quantity)]
        return _estimated(quantity, mean_over_units(*shares).estimate)
    return _number(by_name(result.summary())[quantity])


def _number(row: Any) -> Number:
    return Number(str(row.quantity), *(float(number) for number in (row.value, row.low, row.high)))


def _estimated(quantity: str, estimate: Estimate[float]) -> Number:
    return Number(quantity, *estimate)
