"""The card of a model: what it is made of, what it costs, what was done to it, how it was trained."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from vitscope.results import Result, Run
from vitscope.results.numbers import by_name, duration
from vitscope.results.task_score import exam_scores

KINDS = {
    "stem": "stem",
    "conv": "conv",
    "msa": "MSA",
    "mlp": "MLP",
    "mixer": "mixer",
    "subsample": "subsampling",
    "other": "other",
    "head": "head",
}


@dataclass(frozen=True)
class Block:
    """One unit of the strip."""

    kind: str
    text: str


@dataclass(frozen=True)
class DrawnStage:
    """The units of a stage, side by side, over the size of their map."""

    blocks: list[Block]
    size: str
    text: str  # for who cannot see it


@dataclass(frozen=True)
class ModelCard:
    """What stands on top of the page about one model."""

    facts: list[tuple[str, str]]
    stages: list[DrawnStage]
    surgery: list[str]
    training: list[tuple[str, str]]
    random_weights: bool

    @property
    def kinds(self) -> list[str]:
        """The kinds of unit it has, in the order of the legend."""
        found = {block.kind for stage in self.stages for block in stage.blocks}
        return [kind for kind in KINDS if kind in found]


def make_card(run: Run, results: Mapping[str, Result]) -> ModelCard:
    """The card from what a run recorded; runs of earlier versions recorded less."""
    model = run.model
    return ModelCard(
        facts=_facts(model, results),
        stages=_stages(model.get("units") or []),
        surgery=[_operation(entry) for entry in model.get("surgery") or []],
        training=_training(model.get("training") or {}),
        random_weights=model.get("random_weights") is True,
    )


def count(number: float, unit: str = "") -> str:
    """A large number in thousands, millions or billions."""
    for size, prefix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.2f} {prefix}{unit}"
    return f"{number:g} {unit}".rstrip()


def _facts(model: Mapping[str, Any], results: Mapping[str, Result]) -> list[tuple[str, str]]:
    facts = []
    if model.get("parameters") is not None:
        facts.append(("Parameters", count(int(model["parameters"]))))
    if model.get("flops") is not None:
        facts.append(("Cost of an image", count(int(model["flops"]), "FLOP")))
    if model.get("input_size"):
        facts.append(("Input", _shape(model["input_size"])))
    for exam, (quantity, label) in exam_scores(results).items():
        if row := by_name(results[exam].table()).get(quantity):
            facts.append((label, _share(row.value, row.low, row.high)))
    most: dict[str, int] = {}
    for result in results.values():
        most[result.data] = max(0 if result.makes_images else result.n, most.get(result.data, 0))
    shown = [f"{n:,} images of {data}".replace(",", "\u202f") for data, n in most.items() if n]
    facts.append(("Examined on", "; ".join(shown) or "images of its own"))
    return facts


def _stages(units: Iterable[Mapping[str, Any]]) -> list[DrawnStage]:
    stages = []
    for number, group in groupby(units, key=lambda unit: unit["stage"]):
        members = list(group)
        shapes = [tuple(unit["map_shape"]) for unit in members if unit["map_shape"]]
        size = f"{shapes[-1][1]} × {shapes[-1][2]}" if shapes else "–"
        counts = {name: n for kind, name in KINDS.items() if (n := sum(u["kind"] == kind for u in members))}
        listed = ", ".join(f"{n} {name}" for name, n in counts.items())
        blocks = [Block(unit["kind"] if unit["kind"] in KINDS else "other", _unit(unit)) for unit in members]
        stages.append(DrawnStage(blocks, size, f"stage {number + 1}, map {size}: {listed}"))
    return stages


def _unit(unit: Mapping[str, Any]) -> str:
    parts = [unit["name"], KINDS.get(unit["kind"], unit["kind"])]
    if unit.get("heads"):
        parts.append(f"{unit['heads']} heads")
    if unit["map_shape"]:
        parts.append(_shape(unit["map_shape"]))
    return " · ".join(parts)


def _operation(entry: Mapping[str, Any]) -> str:
    """`name(option=value, ...)`; long lists by their length."""
    options = entry.get("options") or {}
    shown = [f"{key}={_brief(value)}" for key, value in options.items() if value is not None]
    return f"{entry.get('operation')}({', '.join(shown)})"


def _brief(value: Any) -> str:
    if isinstance(value, list) and len(value) > 4:
        return f"[{len(value)} entries]"
    return str(value)


def _training(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    if not facts:
        return []
    recipe = facts["recipe"]
    things = "questions" if facts.get("score") == "Soft accuracy" else "images"
    images = f"{facts['images']:,} {things} of ".replace(",", "\u202f") if facts.get("images") else ""
    return [
        ("Recipe", f"{recipe.get('name') or 'own'}, {recipe.get('optimizer')}, lr {recipe.get('lr'):g}"),
        ("Trained on", f"{images}{facts.get('data')}"),
        ("Epochs", f"{facts['epochs']} of {recipe.get('epochs'):g}"),
        *_while_training(facts),
        ("Training time", duration(facts["seconds"], "exact")),
    ]


def _while_training(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The score of the task; earlier versions knew accuracy alone."""
    label, ends = facts.get("score") or "Accuracy", facts.get("own") or facts.get("accuracy") or ()
    known = [value for value in ends if value is not None and not math.isnan(value)]
    return [(f"{label} while training", _share(*known))] if len(known) == 3 else []


def _share(value: float, low: float, high: float) -> str:
    return f"{100 * value:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def _shape(shape: Iterable[int]) -> str:
    return " × ".join(map(str, shape))
