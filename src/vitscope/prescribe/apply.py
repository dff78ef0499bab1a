"""A treatment: operate, train for a stated budget, examine again, and show before, control and after on one page.

Weights that go on being trained change whether they were operated on or not. So the untouched model is trained for
the same budget, on the same images in the same order: what the operation did is the difference between after and
control, not between after and before.

    OUT/before/     the model as it was, examined
    OUT/control/    trained further, examined
    OUT/after/      operated on, trained as long, examined
    OUT/report.html
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from vitscope.core import distributed, pd
from vitscope.core.arguments import checked
from vitscope.core.errors import VitscopeError, did_you_mean
from vitscope.core.interface import Interface
from vitscope.data import ImageData, load_data
from vitscope.data.fetchers import require_labels
from vitscope.data.folder import without_splits
from vitscope.data.images import HELD_OUT
from vitscope.data.refuse_among_images import refuse_among_images
from vitscope.exams import diagnose
from vitscope.findings.hessian import HessianResult
from vitscope.prescribe.decide import decide, operate
from vitscope.prescribe.examined_model import ExaminedModel, find_examined_model, open_run, ways_to_examine
from vitscope.prescribe.prescription import Prescription, Prescriptions
from vitscope.prescribe.rules import RULES
from vitscope.recipes.named import get_recipe
from vitscope.recipes.recipe import Recipe
from vitscope.report import report
from vitscope.results import Result, atomic_write
from vitscope.results.examined import Examination
from vitscope.results.loss_numbers import STATISTICS, difference
from vitscope.results.paired import differences
from vitscope.results.plain_files import check_page
from vitscope.results.table import tidy_differences
from vitscope.training import Trained, checkpoint, train

ARMS = ("before", "control", "after")
PAGE, DIFFERENCES = "report.html", "differences.csv"
# What rules read, and so what a treatment is judged by.
_READ = ("prediction", *(exam for rule in RULES.values() for exam in (*rule.needs, *rule.refines)))


@dataclass(frozen=True)
class Treatment:
    """What was done and what it did; results by arm (before, control, after) and exam."""

    path: Path
    applied: tuple[Prescription, ...]
    results: dict[str, dict[str, Result]]
    trained: dict[str, Trained]
    budget: str  # what both arms were trained for

    @property
    def page(self) -> Path:
        """Where the page lies that shows the model before, trained further, and operated on, side by side."""
        return self.path / PAGE

    def differences(self) -> pd.DataFrame:
        """After minus control, over the same images with paired intervals: the effect of the operations."""
        after, control = self.results["after"], self.results["control"]
        parts = [_difference(after[exam], control[exam]).assign(exam=exam) for exam in after]
        table = pd.concat([part for part in parts if len(part)], ignore_index=True)
        return table[["exam", "quantity", "value", "low", "high", "n"]]


@checked
def apply(
    run: str | os.PathLike[str],
    epochs: int,
    data: str | None = None,
    only: Sequence[str] = (),
    out: str | os.PathLike[str] | None = None,
    recipe: str | os.PathLike[str] | Recipe = "mini",
    model: nn.Module | str | None = None,
    fraction: float = 1.0,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: bool = True,
    told: Callable[[Prescriptions], None] | None = None,
    *,
    output: str | int | None = None,
    mean: Iterable[float] | float | None = None,
    std: Iterable[float] | float | None = None,
    trust_code: bool = False,
) -> Treatment:
    """Do what is prescribed for the model of a run, and find out what it did.

    Args:
        run: A folder that `diagnose` wrote to.
        epochs: The budget: how long both the operated and the untouched model are trained.
        data: What to train on (its training split) and to examine on (the split and number of images that the run was
            examined on); default: the run's own data. Exams have the options that the run has them with.
        only: Rules to apply, whether the diagnosis calls for them or not; default: all that are prescribed, without
            those that answer the same evidence as another one.
        out: The folder to write; default: beside the run. What it holds already is not done again.
        recipe: How to train.
        model: The model that was examined; default: where the run leads to.
        fraction: Part of the training images to use, the same of every class.
        seed: Of new weights, the order of images and the augmentation.
        device: Where to run.
        progress: Show the recipe and a bar on stderr.
        told: Called with what the rules say before the work begins.
        output: Which of its outputs holds the class scores; default: as when it was examined.
        mean: What was subtracted from pixels from 0 to 1 in its images; default: the same.
        std: What they were divided by; default: the same.
        trust_code: Run code that a run folder or a model of Hugging Face names (see `create_model`).
    """
    folder = Path(out) if out is not None else Path(run).with_name(f"{Path(run).name}-treated")
    check_page(folder / PAGE)
    if unknown := [name for name in only if name not in RULES]:
        raise VitscopeError(f"no rule '{unknown[0]}'; {did_you_mean(unknown[0], RULES)}")
    get_recipe(recipe)  # refused now, if there is none of this name
    examined = find_examined_model(open_run(run), model, Interface().merged(output, mean, std), trust_code)
    exams = [exam for exam in dict.fromkeys(_READ) if exam in examined.results or exam == "prediction"]
    ways = ways_to_examine(examined.run, exams, trust_code or data is not None)
    spec = data or ways[-1].spec
    if spec is None:
        raise VitscopeError(
            f"{examined.run.path} was examined on images given in Python; name some: --data SPEC"
        )
    refuse_among_images(folder, spec)
    skip_broken = any(way.skip_broken for way in ways)
    open_data = cache(partial(load_data, skip_broken=skip_broken))
    shown = [open_data(data or way.spec or spec, split=way.split) for way in ways]
    for part in (*shown, load_data(spec, split="train", check=not skip_broken)):
        if isinstance(part, ImageData):
            require_labels(part, "a treatment, which is trained and scored,", is_exam=False)
    if any(without_splits(part) and part.split != HELD_OUT for part in shown):
        raise VitscopeError(
            f"{spec} has no folders train and test: what is trained on would be measured on; make them, examine what "
            f"is held out of a training (vitscope diagnose ... --split {HELD_OUT}), or give other images: --data SPEC"
        )
    prescriptions = decide(examined)
    if told is not None:
        told(prescriptions)
    chosen = choose(prescriptions, only)
    new = not folder.exists()
    if distributed.is_main():
        _reuse(examined.run.path, folder / "before", exams)
    results: dict[str, dict[str, Result]] = {}
    trained: dict[str, Trained] = {}
    for arm, net, name in _arms(examined, chosen, seed):
        if arm != "before":
            trained[arm] = train(
                net,
                spec,
                recipe,
                folder / arm,
                epochs=epochs,
                fraction=fraction,
                resume=checkpoint.exists(folder / arm),
                skip_broken=skip_broken,
                seed=seed,
                device=device,
                progress=progress,
            )
        try:
            results[arm] = _examined(net, zip(ways, shown, strict=True), device, folder / arm, name)
        except VitscopeError:
            if new and not trained and distributed.is_main():  # refused, and nothing is lost that took long
                shutil.rmtree(folder, ignore_errors=True)
            raise
    budget = _budget(recipe, epochs, fraction, spec, seed)
    treatment = Treatment(folder, chosen, results, trained, budget)
    if distributed.is_main():
        atomic_write(folder / DIFFERENCES, treatment.differences().to_csv(index=False))
        done = " and ".join(str(p.operation) for p in chosen)
        report([folder / arm for arm in ARMS], treatment.page, f"{examined.name}: {done} ({budget})")
    return treatment


def _examined(
    model: nn.Module,
    ways: Iterable[tuple[Examination, Any]],
    device: str | torch.device | None,
    out: Path,
    name: str,
) -> dict[str, Result]:
    """Results of exams, each as the run has it, on the images beside."""
    results: dict[str, Result] = {}
    for way, images in ways:
        results |= diagnose(
            model,
            images,
            way.exams,
            limit=way.limit,
            batch_size=way.batch_size,
            seed=way.seed,
            device=device,
            out=out,
            name=name,
            stream=way.stream,
            options=way.options,
        )
    return results


def _difference(after: Result, control: Result) -> pd.DataFrame:
    if not (isinstance(after, HessianResult) and isinstance(control, HessianResult)):
        return differences(after, control)
    # two rules look at the spectrum: of the same batches, so that a replicate of each drew the same ones
    rows = [
        difference(after.eigenvalues, control.eigenvalues, quantity, after.seed) for quantity in STATISTICS
    ]
    value, low, high = np.array(rows).T
    return tidy_differences(list(STATISTICS), value, low, high, after.n)


def choose(prescriptions: Prescriptions, only: Sequence[str] = ()) -> tuple[Prescription, ...]:
    """The prescriptions to apply; a VitscopeError if there is none."""
    known = {p.rule: p for p in prescriptions.rules}
    if unknown := [name for name in only if name not in known]:
        raise VitscopeError(f"no rule '{unknown[0]}'; there are: {', '.join(known)}")
    for name in only:
        if not known[name].applicable:
            called_for = known[name].state == "prescribed"
            why = "it changes nothing in the model" if called_for else known[name].reason
            raise VitscopeError(f"'{name}' cannot be applied to {prescriptions.model}: {why}")
    called = [p for p in prescriptions.prescribed if p.applicable]
    names = {p.rule for p in called}
    chosen = [known[name] for name in only] or [p for p in called if p.instead_of not in names]
    if not chosen:
        possible = [p.rule for p in prescriptions.rules if p.applicable]
        one = f"--only {possible[0]} applies one all the same" if possible else ""
        choice = one or "no rule's operation is possible"
        without = "".join(f" ({p.rule} is: {p.reason})" for p in prescriptions.prescribed)
        raise VitscopeError(f"no operation is prescribed for {prescriptions.model}{without}; {choice}")
    return tuple(chosen)


def _reuse(run: Path, before: Path, exams: Sequence[str]) -> None:
    """Take over what the run has measured; `diagnose` looks whether it was on the same images, and else measures."""
    for exam in exams:
        source, target = run / "exams" / exam, before / "exams" / exam
        if source.exists() and not target.exists():
            shutil.copytree(source, target)


def _arms(
    examined: ExaminedModel, chosen: Sequence[Prescription], seed: int
) -> Iterator[tuple[str, nn.Module, str]]:
    """Each arm with a model of its own, made when it is its turn."""
    name = examined.name
    yield "before", copy.deepcopy(examined.model), f"{name}, before"
    yield "control", copy.deepcopy(examined.model), f"{name}, trained further"
    operated = copy.deepcopy(examined.model)
    torch.manual_seed(
        seed
    )  # new weights are the same in every process, and when it goes on after an interruption
    for prescription in chosen:
        operated = operate(operated, prescription)
    yield "after", operated, " + ".join([name, *(str(p.operation) for p in chosen)])


def _budget(
    recipe: str | os.PathLike[str] | Recipe, epochs: int, fraction: float, spec: str, seed: int
) -> str:
    name = recipe.name if isinstance(recipe, Recipe) else os.fspath(recipe)
    part = "" if fraction == 1.0 else f"{fraction:.0%} of "
    return f"{epochs} epoch{'s' * (epochs != 1)} of {part}{spec} by recipe {name}, seed {seed}, both arms"
