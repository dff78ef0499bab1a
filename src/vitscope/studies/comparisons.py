"""Arm against arm: comparisons with their verdicts, and every other number beside that of the first arm.

Differences are paired by seed, and by image where results keep replicates. A verdict follows from the p value after
Holm's correction over all comparisons of the study: below 0.05 it is decided, for or against the rule by the side that
the value lies on. One training of an arm decides nothing, however many images it was measured on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from vitscope.claims.verdict import ONE_TRAINING, Judgement, Rule
from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import Estimate
from vitscope.results.over_seeds import Measured, OverSeeds, holm, over_seeds
from vitscope.results.possible import within_possible
from vitscope.results.study_result import each_row
from vitscope.studies.contrasts import measure_comparison
from vitscope.studies.design import TRAINING, Arm, Comparison
from vitscope.studies.quantities import Quantity, Results, measure, measure_difference, summary_of
from vitscope.studies.study import Study

Trained = tuple[str, int]  # arm and seed
Row = dict[str, Any]
LEVEL = 0.05
PLACE = ("unit", "kind", "stage", "depth")  # of a number in a model
RECORDED = ("train_loss", "nll", "accuracy", "images_per_second", "seconds", "parameters", "flops")


class Facts:
    """A study with what is known of its trained models."""

    def __init__(
        self,
        study: Study,
        results: Mapping[Trained, Results],
        training: Mapping[Trained, Mapping[str, Any]],
    ) -> None:
        self.study, self.results, self.training = study, results, training

    def of(self, arm: str, seed: int) -> tuple[Results, Mapping[str, Any] | None]:
        """Results and training of one model."""
        return self.results.get((arm, seed), {}), self.training.get((arm, seed))

    def done(self, arm: Arm) -> list[int]:
        """Seeds of which anything is known."""
        return [seed for seed in arm.seeds if any(self.of(arm.name, seed))]


def compare_arms(facts: Facts) -> tuple[list[Row], list[Row]]:
    """Every comparison with its verdict, and the numbers of single trainings that it rests on."""
    rows: list[Row] = []
    by_seed: list[Row] = []
    for one in facts.study.comparisons:
        numbers, note = _by_seed(facts, one)
        by_seed += [{"name": one.name, "seed": seed, **ends(m)} for seed, m in numbers.items()]
        row: Row = {
            "name": one.name,
            "statement": one.statement,
            "of": one.subject,
            "against": one.against,
            "quantity": one.quantity,
            "seeds": len(numbers),
            "rule": f"{one.rule.side} {one.rule.bound:g}",
            "note": note,
        }
        if numbers:
            mean = over_seeds(list(numbers.values()))
            of_one_arm = one.of and not one.against and not one.log
            row |= {
                **(ends_of_one_arm(Quantity.read(one.quantity).name, mean) if of_one_arm else ends(mean)),
                "n": mean.n or None,
                "p": mean.p_value(nearest_bound(one.rule, mean.value)),
            }
        rows.append(row)
    corrected = holm([row.get("p", math.nan) for row in rows], planned=len(rows))
    for one, row, p in zip(facts.study.comparisons, rows, corrected, strict=True):
        alone = row["seeds"] < 2 and any(facts.study.arm(arm).is_trained for arm in one.arms)
        decided = "inconclusive" if alone else judge(one.rule, row.get("value", math.nan), p)
        row |= {"holm_p": p, "verdict": decided}
    return rows, by_seed


def _by_seed(facts: Facts, one: Comparison) -> tuple[dict[int, Measured], str]:
    """The number of every seed that has it, and what there is to say about the others."""
    numbers: dict[int, Measured] = {}
    lacking: dict[str, list[int]] = {}
    common = [set(facts.study.arm(arm).seeds) for arm in one.arms]
    seeds = [seed for seed in facts.study.arm(one.arms[0]).seeds if all(seed in own for own in common)]
    for seed in seeds:
        try:
            measured = measure_comparison(one, {arm: facts.of(arm, seed) for arm in one.arms})
        except VitscopeError as error:
            lacking.setdefault(str(error), []).append(seed)
            continue
        if math.isnan(measured.value):
            lacking.setdefault("the number is not defined", []).append(seed)
        else:
            numbers[seed] = measured
    told = [f"seed {', '.join(map(str, seeds))}: {why}" for why, seeds in lacking.items()]
    if not seeds:
        told.append(f"{' and '.join(one.arms)} have no seed in common")
    if len(numbers) == 1:
        told.insert(0, ONE_TRAINING if len(one.arms) > 1 else "one training: says nothing about another")
    return numbers, "; ".join(told)


def nearest_bound(rule: Rule, value: float) -> float:
    """The bound of a rule that decides about this value."""
    return math.copysign(rule.bound, value) if rule.side == "within" else rule.bound


def judge(rule: Rule, value: float, p: float) -> Judgement:
    """Decided if the corrected p value is below 0.05: by the side of the bound that the value lies on."""
    if math.isnan(p) or p >= LEVEL:
        return "inconclusive"
    return rule.judge(value, value, value)


def differences_of(facts: Facts, arm: Arm) -> Iterator[Row]:
    """Every number of a whole model minus that of the first arm; what only one of the two has is left out."""
    first = facts.study.arms[0]
    common = [seed for seed in facts.done(arm) if seed in facts.done(first)]
    for quantity in dict.fromkeys(q for seed in common for q in _whole_quantities(facts, arm.name, seed)):
        found = []
        for seed in common:
            try:
                pair = facts.of(arm.name, seed), facts.of(first.name, seed)
                found.append(measure_difference(str(quantity), *pair))
            except VitscopeError:
                continue
        known = [one for one in found if not math.isnan(one.value)]
        if known:
            mean = over_seeds(known)
            condition = ", ".join(value for _, value in quantity.where) or None
            row: Row = {
                "arm": arm.name,
                "against": first.name,
                "exam": quantity.label,
                "condition": condition,
            }
            row |= {"quantity": quantity.name, **ends(mean), "seeds": mean.seeds, "n": mean.n or None}
            yield {**row, "p": mean.p_value(0.0)}


def _whole_quantities(facts: Facts, arm: str, seed: int) -> Iterator[Quantity]:
    results, training = facts.of(arm, seed)
    for label, result in results.items():
        table = summary_of(result)
        for row in each_row(table[table["unit"].isna()]):
            said = ((name, getattr(row, name, None)) for name in ("kind", "condition"))
            yield Quantity(label, str(row.quantity), tuple((k, v) for k, v in said if isinstance(v, str)))
    for place, _ in recorded(training):
        yield Quantity(TRAINING, place["quantity"])


def recorded(training: Mapping[str, Any] | None) -> Iterator[tuple[Row, Measured]]:
    """What a training tells of itself, and where it stands in the table of numbers."""
    for name in RECORDED if training else ():
        try:
            measured = measure(f"{TRAINING}.{name}", {}, training)
        except VitscopeError:
            continue
        place = dict.fromkeys(PLACE) | {"exam": TRAINING, "condition": None, "quantity": name}
        yield place, measured


def ends(one: Measured | OverSeeds) -> Row:
    """Value and interval as cells of a row."""
    return {"value": one.value, "low": one.low, "high": one.high}


def ends_of_one_arm(quantity: str, mean: OverSeeds) -> Row:
    """The same of a number that is no difference: it does not leave what is possible, however few seeds there are."""
    found = within_possible(quantity, Estimate(mean.value, mean.low, mean.high))
    return found.each(float)._asdict()
