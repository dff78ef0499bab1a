"""Evaluation of models on the same images: how good, how calibrated and how robust their predictions are.

found = vs.evaluate(["resnet_mini", "vit_mini"], "fashion", exams=["prediction", "corruption"])
found.results["vit_mini"]["prediction"].ece
found.table()            # every whole-model quantity of every model, with intervals
found.differences()      # to the first model, paired over images
found.flips("vit_mini")  # images that only one of the two gets right
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vitscope.core import distributed, pd
from vitscope.core.arguments import checked
from vitscope.core.errors import BadArgument, VitscopeError, warn
from vitscope.data import class_count, load_data, relabel
from vitscope.data.labels import labels_hint
from vitscope.data.refuse_among_images import refuse_among_images
from vitscope.data.tasks.tensors import with_masks
from vitscope.engine.choose_exams import find_exams, fitting, tell_of_results, with_options
from vitscope.engine.diagnose import run_exams
from vitscope.engine.exam import Exam
from vitscope.engine.scores import Temperature
from vitscope.engine.takes_interface import Request
from vitscope.findings.prediction import PredictionResult
from vitscope.models import create_model, name_of
from vitscope.models.create import check_name, tell_of_random_weights
from vitscope.results import Result
from vitscope.results.atomic import atomic_write
from vitscope.results.paired import Flips, differences, flips
from vitscope.results.plain_files import display_name, refuse_same, run_folders
from vitscope.results.table import COLUMNS

DIFFERENCES = "differences.csv"
Model = nn.Module | str | os.PathLike[str]


@dataclass(frozen=True)
class Evaluation:
    """Results by model and exam; the first model is the one that others are compared with."""

    results: dict[str, dict[str, Result]]
    folders: dict[str, Path]  # run folders by model, if they were kept

    def table(self) -> pd.DataFrame:
        """What belongs to whole models: model, exam, quantity, value, low, high, n and the exams' own columns."""
        parts = [
            _whole(result.summary()).assign(model=model, exam=exam)
            for model, found in self.results.items()
            for exam, result in found.items()
        ]
        return _ordered(parts, ("model", "exam"))

    def differences(self) -> pd.DataFrame:
        """Every other model minus the first, over the same images; an exam that chose others for one is left out."""
        (first, reference), *others = self.results.items()
        parts = []
        for model, found in others:
            for exam, result in found.items():
                try:
                    rows = differences(result, reference[exam])
                except VitscopeError as error:
                    warn(f"{exam}: {error}")
                else:
                    parts.append(_whole(rows).assign(model=model, minus=first, exam=exam))
        return _ordered(parts, ("model", "minus", "exam"))

    def flips(self, model: str) -> Flips:
        """The images that `model` (first) and the first model (second) get right, if `prediction` was done."""
        reference = next(iter(self.results.values()))
        pair = [found.get("prediction") for found in (self.results[model], reference)]
        if not all(isinstance(result, PredictionResult) for result in pair):
            raise VitscopeError(
                "which images are right is known from 'prediction' alone; add it to the exams"
            )
        return flips(*pair)  # type: ignore[arg-type]


@checked
def evaluate(
    models: Model | Sequence[Model] | Mapping[str, Model],
    data: Any,
    exams: Sequence[str] | None = None,
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    out: str | os.PathLike[str] | None = None,
    labels: str | None = None,
    classes: str | None = None,
    temperature: Temperature = None,
    cache: bool | None = None,
    *,
    output: str | int | None = None,
    mean: Iterable[float] | float | None = None,
    std: Iterable[float] | float | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    **creation: Any,
) -> Evaluation:
    """Evaluate models on the same images.

    Args:
        models: A model, several, or several by name; each may also be what `create_model` takes, and is then made when
            it is its turn, with its pretrained weights.
        data: What `load_data` gives or takes, a Dataset, a DataLoader, or a pair of tensors (images, labels); for
            segmentation a pair, or a DataLoader, of (images, masks).
        exams: Names of exams; default: all of an evaluation that do not take very long, for which "all" stands too.
        limit: Use a seeded, class-stratified subset of this many images.
        batch_size: Images per forward pass.
        seed: Of the subset, the order and the bootstrap.
        device: Where to run; default: where the model is.
        out: The run folder of a single model, the folder above those of several; what it holds already is not done
            again. Differences of several models are kept in it as `differences.csv`.
        labels: Published labels: "imagenet", "numeric" or "real:PATH" (see `relabel`).
        classes: Which outputs may be chosen: "present" or a file with class names (see `relabel`).
        temperature: For `prediction`: a number to divide logits by, or "fit".
        cache: For `corruption`: keep corrupted images for the next run; default: if they take less than 4 GB.
        output: Which of their outputs holds the class scores, where that cannot be decided: a key, or a place from 0.
        mean: What was subtracted from pixels from 0 to 1 in the images they are given, where they do not say.
        std: What they were divided by.
        options: Of single exams, such as {"adversarial": {"steps": 10}}: arguments of their own functions.
        creation: Passed on to `create_model`: pretrained, num_classes, img_size, trust_code ...
    """
    chosen = _chosen(exams, temperature, cache, options)
    if out is not None:
        refuse_among_images(out, data)
    if isinstance(data, str):
        data = load_data(data, split="test")
    data = with_masks(data, limit)
    if labels is not None or classes is not None:
        data = relabel(data, labels, classes)
    said: dict[str, Any] = {"output": output, "mean": mean, "std": std}
    named = _named(models)
    for model in named.values():
        if not isinstance(model, nn.Module):
            check_name(model, creation.get("trust_code", False))
    chosen = fitting(chosen, exams, data)
    folders = {} if out is None else run_folders(list(named), Path(out), Path(out))
    results: dict[str, dict[str, Result]] = {}
    for name, model in named.items():
        if not isinstance(model, nn.Module):
            torch.manual_seed(seed)  # weights that are not loaded are the same each time, in each process
            model = create_model(model, **{"pretrained": None, **creation})
        if hint := labels_hint(data, class_count(model)):
            warn(hint)
        request = Request(limit, batch_size, seed, device, name)
        results[name] = run_exams(model, data, chosen, request, folders.get(name), **said)
        tell_of_results(results[name], exams)
        given = named[name]
        if not isinstance(given, nn.Module):
            tell_of_random_weights(given, creation.get("pretrained"))
    found = Evaluation(results, folders)
    if out is not None and len(results) > 1 and distributed.is_main():
        atomic_write(Path(out) / DIFFERENCES, found.differences().to_csv(index=False))
    return found


def _chosen(
    names: Sequence[str] | None,
    temperature: Temperature,
    cache: bool | None,
    options: Mapping[str, Mapping[str, Any]] | None,
) -> list[Exam]:
    """The exams with their options, of which two have a short form."""
    exams = find_exams(names, purpose="evaluation")
    given = {name: dict(own) for name, own in (options or {}).items()}
    names = [exam.result.exam for exam in exams]
    if temperature is not None:
        if "prediction" not in names:
            others = ", ".join(names)
            raise BadArgument(
                f"temperature is for prediction, which is not among the exams: {others}; add it"
            )
        given.setdefault("prediction", {})["temperature"] = temperature
    if cache is not None:
        if "corruption" not in names:
            raise BadArgument(
                "cache (--no-cache) is about corrupted images, and corruption is not among the exams; leave it out"
            )
        given.setdefault("corruption", {})["cache"] = cache
    return with_options(exams, given)


def _named(models: Model | Sequence[Model] | Mapping[str, Model]) -> dict[str, Model]:
    """Models by the name that they go by; those of the same name get numbers."""
    if isinstance(models, Mapping) and models:
        return dict(models)
    several = [models] if isinstance(models, nn.Module | str | os.PathLike) else list(models)
    if not several:
        raise VitscopeError("no model was named; try: vitscope evaluate vit_mini resnet_mini --data fashion")
    named: dict[str, Model] = {}
    refuse_same([model for model in several if not isinstance(model, nn.Module)])
    for model in several:
        name = name_of(model) if isinstance(model, nn.Module) else display_name(model)
        if any(model is other for other in named.values()):
            raise VitscopeError(f"{name} is given twice; give each model once")
        unique = next(n for n in (name, *(f"{name}-{i}" for i in range(2, 10_000))) if n not in named)
        named[unique] = model
    return named


def _whole(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of no single unit, without the columns that are about units."""
    return table[table["unit"].isna()].drop(columns=["unit", "stage", "depth"])


def _ordered(parts: Sequence[pd.DataFrame], first: tuple[str, ...]) -> pd.DataFrame:
    usual = [*first, *(c for c in COLUMNS if c in ("quantity", "value", "low", "high", "n"))]
    filled = [part for part in parts if len(part)]
    table = pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=usual)
    own = [c for c in table.columns if c not in usual and table[c].notna().any()]
    return table[[*usual, *own]]
