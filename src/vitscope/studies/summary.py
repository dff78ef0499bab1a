"""What a study found, out of the results of its trained models: tables, comparisons with verdicts, what is missing.

Numbers of one arm are means over its seeds, differences are paired by seed, and by image where results keep replicates
(see `results.over_seeds`). A verdict follows from the p value after Holm's correction over all comparisons of the
study: below 0.05 it is decided, for or against the rule by the side that the value lies on. A study that is not
finished is summed up as far as it got.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from vitscope.claims.verdict import ONE_TRAINING, Judgement, Rule
from vitscope.core import pd
from vitscope.core.errors import VitscopeError
from vitscope.results import Result
from vitscope.results.numbers import is_share
from vitscope.results.over_seeds import Measured, OverSeeds, holm, over_seeds
from vitscope.results.study_result import TABLES, StudyResult, as_table, each_row
from vitscope.studies.parts import TRAINING, Arm, Comparison
from vitscope.studies.quantities import (
    Quantity,
    Results,
    measure,
    measure_difference,
    name_of,
    replicates_of,
    summary_of,
)
from vitscope.studies.study import Study

Trained = tuple[str, int]  # arm and seed
LEVEL = 0.05
RECORDED = ("train_loss", "nll", "accuracy", "images_per_second", "seconds", "parameters", "flops")
_PLACE = ("unit", "kind", "stage", "depth")
_SIGNED = ("signed_ece", "drop", "ece_change")
Row = dict[str, Any]


def summarise(
    study: Study,
    results: Mapping[Trained, Results],
    training: Mapping[Trained, Mapping[str, Any]] | None = None,
    notes: Mapping[str, str] | None = None,
    differences: bool = True,
) -> StudyResult:
    """Sum a study up.

    Args:
        study: What was asked.
        results: Of every arm and seed that was examined, by label.
        training: What every training recorded: the last row of its metrics, `seconds`, `parameters`, and under
            `rows` all of them, one per epoch.
        notes: What there is to say about an arm, such as why it failed.
        differences: Also compare every number of every arm with that of the first.
    """
    training, notes = training or {}, notes or {}
    facts = _Facts(study, results, training)
    comparisons, by_seed = _comparisons(facts)
    tables = {
        "numbers": [row for arm in study.arms for row in _numbers(facts, arm)],
        "comparisons": comparisons,
        "by_seed": by_seed,
        "differences": [row for arm in study.arms[1:] if differences for row in _differences(facts, arm)],
        "curves": [row for arm in study.arms for row in _curves(facts, arm)],
        "arms": [_arm(facts, arm, notes.get(arm.name)) for arm in study.arms],
    }
    return StudyResult(
        study.name,
        study.question,
        study.to_dict(),
        {name: as_table(name, tables[name]) for name in TABLES},
        tuple(_missing(facts)),
    )


class _Facts:
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
        return [s for s in arm.seeds if (arm.name, s) in self.results or (arm.name, s) in self.training]


def _numbers(facts: _Facts, arm: Arm) -> Iterator[Row]:
    """Every number of every seed, then their means."""
    found: dict[tuple[Any, ...], list[Measured]] = defaultdict(list)
    places: dict[tuple[Any, ...], Row] = {}
    for seed in facts.done(arm):
        results, training = facts.of(arm.name, seed)
        rows = [row for label, result in results.items() for row in _rows_of(label, result)]
        for place, measured in [*rows, *_recorded(training)]:
            key = tuple(None if pd.isna(value) else value for value in place.values())
            found[key].append(measured)
            places.setdefault(key, place)
            yield {
                "arm": arm.name,
                "seed": seed,
                **place,
                **_ends(measured),
                "n": measured.n or None,
                "seeds": 1,
            }
    for key, several in found.items():
        mean = _within(str(places[key]["quantity"]), over_seeds(several))
        yield {"arm": arm.name, **places[key], **_ends(mean), "n": mean.n or None, "seeds": mean.seeds}


def _rows_of(label: str, result: Result) -> Iterator[tuple[Row, Measured]]:
    """The rows that a person looks at first; where names do not tell them apart, the exam's own columns do."""
    table = summary_of(result)
    n, drawn = replicates_of(result)
    conditions = _conditions(table)
    for condition, row in zip(conditions, each_row(table), strict=True):
        place = {name: getattr(row, name) for name in _PLACE}
        place |= {"exam": label, "condition": condition, "quantity": row.quantity}
        replicates = drawn.get(name_of(row)) if pd.isna(row.unit) and pd.isna(row.kind) else None
        images = n if replicates is not None else int(row.n)
        yield place, Measured(float(row.value), float(row.low), float(row.high), images, replicates)


def _conditions(table: pd.DataFrame) -> list[str | None]:
    said = [one if isinstance(one, str) else None for one in table.get("condition", [None] * len(table))]
    keys = [*_PLACE[:2], "quantity", *(["condition"] if "condition" in table else [])]
    twice = table.duplicated(keys, keep=False)
    usual = {*_PLACE, "condition", "quantity", "value", "low", "high", "n"}
    own = [column for column in table if column not in usual]
    for place, row in enumerate(table.to_dict("records")):
        if twice.iloc[place]:
            words = [f"{column} {row[column]}" for column in own if not pd.isna(row[column])]
            said[place] = ", ".join(filter(None, [said[place], *words])) or None
    return said


def _recorded(training: Mapping[str, Any] | None) -> Iterator[tuple[Row, Measured]]:
    for name in RECORDED if training else ():
        try:
            measured = measure(f"{TRAINING}.{name}", {}, training)
        except VitscopeError:
            continue
        place = dict.fromkeys(_PLACE) | {"exam": TRAINING, "condition": None, "quantity": name}
        yield place, measured


def _comparisons(facts: _Facts) -> tuple[list[Row], list[Row]]:
    rows: list[Row] = []
    by_seed: list[Row] = []
    for one in facts.study.comparisons:
        found, note = _by_seed(facts, one)
        by_seed += [{"name": one.name, "seed": seed, **_ends(m)} for seed, m in found.items()]
        row: Row = {
            "name": one.name,
            "statement": one.statement,
            "of": one.of,
            "against": one.against,
            "quantity": one.quantity,
            "seeds": len(found),
            "rule": f"{one.rule.side} {one.rule.bound:g}",
            "note": note,
        }
        if found:
            mean = over_seeds(list(found.values()))
            row |= {
                **_ends(mean),
                "n": mean.n or None,
                "p": mean.p_value(nearest_bound(one.rule, mean.value)),
            }
        rows.append(row)
    for one, row, p in zip(
        facts.study.comparisons, rows, holm([row.get("p", math.nan) for row in rows]), strict=True
    ):
        row |= {"holm_p": p, "verdict": judge(one.rule, row.get("value", math.nan), p)}
    return rows, by_seed


def _by_seed(facts: _Facts, one: Comparison) -> tuple[dict[int, Measured], str]:
    """The number of every seed that has it, and what there is to say about the others."""
    found: dict[int, Measured] = {}
    lacking: dict[str, list[int]] = {}
    others = facts.study.arm(one.against).seeds if one.against else None
    seeds = [seed for seed in facts.study.arm(one.of).seeds if others is None or seed in others]
    for seed in seeds:
        try:
            if one.against is None:
                measured = measure(one.quantity, *facts.of(one.of, seed))
            else:
                pair = facts.of(one.of, seed), facts.of(one.against, seed)
                measured = measure_difference(one.quantity, *pair)
        except VitscopeError as error:
            lacking.setdefault(str(error), []).append(seed)
            continue
        if math.isnan(measured.value):
            lacking.setdefault("the number is not defined", []).append(seed)
        else:
            found[seed] = measured
    told = [f"seed {', '.join(map(str, seeds))}: {why}" for why, seeds in lacking.items()]
    if not seeds:
        told.append(f"{one.of} and {one.against} have no seed in common")
    if len(found) == 1:
        told.insert(0, ONE_TRAINING if one.against else "one training: says nothing about another")
    return found, "; ".join(told)


def nearest_bound(rule: Rule, value: float) -> float:
    """The bound of a rule that decides about this value."""
    return math.copysign(rule.bound, value) if rule.side == "within" else rule.bound


def judge(rule: Rule, value: float, p: float) -> Judgement:
    """Decided if the corrected p value is below 0.05: by the side of the bound that the value lies on."""
    if math.isnan(p) or p >= LEVEL:
        return "inconclusive"
    return rule.judge(value, value, value)


def _differences(facts: _Facts, arm: Arm) -> Iterator[Row]:
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
            row |= {"quantity": quantity.name, **_ends(mean), "seeds": mean.seeds, "n": mean.n or None}
            yield {**row, "p": mean.p_value(0.0)}


def _whole_quantities(facts: _Facts, arm: str, seed: int) -> Iterator[Quantity]:
    results, training = facts.of(arm, seed)
    for label, result in results.items():
        table = summary_of(result)
        for row in each_row(table[table["unit"].isna()]):
            said = ((name, getattr(row, name, None)) for name in ("kind", "condition"))
            yield Quantity(label, str(row.quantity), tuple((k, v) for k, v in said if isinstance(v, str)))
    for place, _ in _recorded(training):
        yield Quantity(TRAINING, place["quantity"])


def _curves(facts: _Facts, arm: Arm) -> Iterator[Row]:
    for seed in facts.done(arm):
        for row in (facts.of(arm.name, seed)[1] or {}).get("rows", ()):
            kept = {name: row[name] for name in TABLES["curves"] if name in row}
            yield {**kept, "arm": arm.name, "seed": seed}


def _arm(facts: _Facts, arm: Arm, note: str | None) -> Row:
    trainings = [t for seed in facts.done(arm) if (t := facts.of(arm.name, seed)[1])]

    def mean(name: str) -> float | None:
        values = [float(one[name]) for one in trainings if isinstance(one.get(name), int | float)]
        return sum(values) / len(values) if values else None

    operations = " → ".join(_operation(one) for one in arm.operations)
    model = f"{arm.model}({_arguments(arm.arguments)})" if arm.arguments else arm.model
    parameters, flops = mean("parameters"), mean("flops")
    return {
        "arm": arm.name,
        "model": f"{model}, as {arm.start} ended" if arm.start else model,
        "operations": operations or None,
        "recipe": arm.recipe if arm.train else None,
        "changes": (_arguments(arm.changes) or None) if arm.train else None,
        "data": arm.data,
        "fraction": arm.fraction,
        "trained": "here" if arm.train else "before",
        "asked": ", ".join(map(str, arm.seeds)),
        "done": len(facts.done(arm)),
        "parameters": None if parameters is None else round(parameters),
        "flops": None if flops is None else round(flops),
        "seconds": mean("seconds"),
        "images_per_second": mean("images_per_second"),
        "weights": next((str(one["weights"]) for one in trainings if "weights" in one), None),
        "note": note,
    }


def _operation(said: str | Mapping[str, Any]) -> str:
    if isinstance(said, str):
        return said
    return ", ".join(f"{name}({_arguments(options or {})})" for name, options in said.items())


def _arguments(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in given.items())


def _missing(facts: _Facts) -> Iterator[str]:
    """Exams that are not there, arm by arm."""
    for arm in facts.study.arms:
        lacking: dict[tuple[str, ...], list[int]] = {}
        for seed in arm.seeds:
            results = facts.of(arm.name, seed)[0]
            labels = tuple(look.label for look in facts.study.looks_at(arm.name) if look.label not in results)
            if labels:
                lacking.setdefault(labels, []).append(seed)
        for labels, seeds in lacking.items():
            yield f"{arm.name}, seed {', '.join(map(str, seeds))}: no {', '.join(labels)}"


def _within(quantity: str, mean: OverSeeds) -> OverSeeds:
    """Shares do not leave [0, 1], however few seeds there are."""
    if not (is_share(quantity) or quantity == "nep") or quantity.startswith(_SIGNED):
        return mean
    low, high = max(mean.low, min(0.0, mean.value)), min(mean.high, max(1.0, mean.value))
    return OverSeeds(
        mean.value, low, high, mean.seeds, mean.n, mean.seed_error, mean.image_error, mean.rest_error
    )


def _ends(one: Measured | OverSeeds) -> Row:
    return {"value": one.value, "low": one.low, "high": one.high}
