"""What a study found, out of the results of its trained models: tables, comparisons with verdicts, what is missing.

Numbers of one arm are means over its seeds, differences are paired by seed, and by image where results keep replicates
(see `results.over_seeds`, `studies.comparisons`). A study that is not finished is summed up as far as it got.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from vitscope.core import pd
from vitscope.results import Result
from vitscope.results.over_seeds import Measured, over_seeds
from vitscope.results.study_result import TABLES, StudyResult, as_table, each_row
from vitscope.studies.comparisons import (
    PLACE,
    Facts,
    Row,
    Trained,
    compare_arms,
    differences_of,
    ends,
    ends_of_one_arm,
    recorded,
)
from vitscope.studies.design import Arm
from vitscope.studies.quantities import (
    Results,
    name_of,
    replicates_of,
    summary_of,
)
from vitscope.studies.study import Study


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
    facts = Facts(study, results, training)
    comparisons, by_seed = compare_arms(facts)
    tables = {
        "numbers": [row for arm in study.arms for row in _numbers(facts, arm)],
        "comparisons": comparisons,
        "by_seed": by_seed,
        "differences": [row for arm in study.arms[1:] if differences for row in differences_of(facts, arm)],
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


def _numbers(facts: Facts, arm: Arm) -> Iterator[Row]:
    """Every number of every seed, then their means."""
    found: dict[tuple[Any, ...], list[Measured]] = defaultdict(list)
    places: dict[tuple[Any, ...], Row] = {}
    for seed in facts.done(arm):
        results, training = facts.of(arm.name, seed)
        rows = [row for label, result in results.items() for row in _rows_of(label, result)]
        for place, measured in [*rows, *recorded(training)]:
            key = tuple(None if pd.isna(value) else value for value in place.values())
            found[key].append(measured)
            places.setdefault(key, place)
            yield {
                "arm": arm.name,
                "seed": seed,
                **place,
                **ends(measured),
                "n": measured.n or None,
                "seeds": 1,
            }
    for key, several in found.items():
        mean = over_seeds(several)
        shown = ends_of_one_arm(str(places[key]["quantity"]), mean)
        yield {"arm": arm.name, **places[key], **shown, "n": mean.n or None, "seeds": mean.seeds}


def _rows_of(label: str, result: Result) -> Iterator[tuple[Row, Measured]]:
    """The rows that a person looks at first; where names do not tell them apart, the exam's own columns do."""
    table = summary_of(result)
    n, drawn = replicates_of(result)
    conditions = _conditions(table)
    for condition, row in zip(conditions, each_row(table), strict=True):
        place = {name: getattr(row, name) for name in PLACE}
        place |= {"exam": label, "condition": condition, "quantity": row.quantity}
        replicates = drawn.get(name_of(row)) if pd.isna(row.unit) and pd.isna(row.kind) else None
        images = n if replicates is not None else int(row.n)
        yield place, Measured(float(row.value), float(row.low), float(row.high), images, replicates)


def _conditions(table: pd.DataFrame) -> list[str | None]:
    said = [one if isinstance(one, str) else None for one in table.get("condition", [None] * len(table))]
    keys = [*PLACE[:2], "quantity", *(["condition"] if "condition" in table else [])]
    twice = table.duplicated(keys, keep=False)
    usual = {*PLACE, "condition", "quantity", "value", "low", "high", "n"}
    own = [column for column in table if column not in usual]
    for place, row in enumerate(table.to_dict("records")):
        if twice.iloc[place]:
            words = [f"{column} {row[column]}" for column in own if not pd.isna(row[column])]
            said[place] = ", ".join(filter(None, [said[place], *words])) or None
    return said


def _curves(facts: Facts, arm: Arm) -> Iterator[Row]:
    for seed in facts.done(arm):
        for row in (facts.of(arm.name, seed)[1] or {}).get("rows", ()):
            kept = {name: row[name] for name in TABLES["curves"] if name in row}
            yield {**kept, "arm": arm.name, "seed": seed}


def _arm(facts: Facts, arm: Arm, note: str | None) -> Row:
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
        "built": next((str(one["built"]) for one in trainings if "built" in one), None),
        "caution": next((str(one["caution"]) for one in trainings if "caution" in one), None),
        "note": note,
    }


def _operation(said: str | Mapping[str, Any]) -> str:
    if isinstance(said, str):
        return said
    return ", ".join(f"{name}({_arguments(options or {})})" for name, options in said.items())


def _arguments(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in given.items())


def _missing(facts: Facts) -> Iterator[str]:
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
