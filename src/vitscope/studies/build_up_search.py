"""A build-up search: the order in which candidates are tried, the loop that decides on them, the table it leaves.

A candidate is its counts of MSA blocks per stage, nothing else: it does not depend on what was tried before it. So
those that may come next can be done at the same time, on speculation.

All candidates are measured on the same images. With a(i) the number of image i under the model kept so far and b(i)
under the candidate, the difference is mean(b - a) and its 95 % interval +- t sd(b - a) / sqrt(n), t Student's: what
both models get right, or both wrong, does not count, so the interval is narrower than those of the two scores.
"""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from vitscope.core import pd
from vitscope.core.errors import BadResult
from vitscope.core.statistics import Estimate, mean_interval, share_interval
from vitscope.results import atomic_write
from vitscope.results.codec import decode, encode
from vitscope.results.record_file import read_record
from vitscope.studies.job import Job, Outcome
from vitscope.studies.runners import Runner
from vitscope.surgery.tools.replaceable import ConvStage

SCHEMA = 1
NAME = "build_up"
Counts = tuple[int, ...]


class _File(TypedDict):
    schema: int
    result: dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One candidate. The first row is the model without any MSA block, to which no difference belongs."""

    step: int
    stage: int | None  # the one that got an MSA block, from 1
    unit: str | None  # the conv unit that it replaces
    msa: tuple[int, ...]  # MSA blocks per stage of this candidate
    score: float
    low: float
    high: float
    difference: float  # to the model kept before
    difference_low: float
    difference_high: float
    kept: bool
    n: int  # images
    parameters: int
    seconds: float


@dataclass(frozen=True)
class BuildUp:
    """The candidates of a build-up search, in the order they were decided on."""

    steps: tuple[Step, ...]
    budget: int
    min_gain: float
    significant: bool
    complete: bool  # the budget is used, or nothing is left to try

    @property
    def best(self) -> Step:
        """The candidate that was kept last."""
        return [step for step in self.steps if step.kept][-1]

    @property
    def msa(self) -> tuple[int, ...]:
        """MSA blocks per stage of the best one, as `alternate` takes them."""
        return self.best.msa

    def table(self) -> pd.DataFrame:
        """A row per candidate."""
        rows = [{**asdict(step), "msa": "-".join(map(str, step.msa))} for step in self.steps]
        return pd.DataFrame(rows).astype({"stage": "Int64"})

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `build_up.csv` and `build_up.json`."""
        atomic_write(Path(folder) / f"{NAME}.csv", self.table().to_csv(index=False))
        content = {"schema": SCHEMA, "result": encode(self)}
        atomic_write(Path(folder) / f"{NAME}.json", json.dumps(content, indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> BuildUp:
        """Read what `save` wrote."""
        path = Path(folder) / f"{NAME}.json"
        try:
            content = read_record(path, _File, SCHEMA, "start the search again, it goes on")
            found = decode(cls, content["result"])
            if not any(step.kept for step in found.steps):
                raise ValueError("it has no step that was kept")
            return found
        except FileNotFoundError:
            raise BadResult(f"no build-up search in {folder}: {path.name} is missing") from None
        except ValueError as error:
            raise BadResult(f"{path} is damaged ({error}); start the search again, it goes on") from error


def interval_of_scores(values: np.ndarray) -> Estimate[float]:
    """Mean and its 95 % interval: Wilson's where all values are 0 or 1, which stays between them."""
    if not np.isin(values, (0.0, 1.0)).all():
        return interval_of_mean(values)
    low, high = share_interval(values.sum(), len(values))
    return Estimate(float(values.mean()), float(low), float(high))


def interval_of_mean(values: np.ndarray) -> Estimate[float]:
    """Mean and Student's 95 % interval; the interval is NaN for fewer than two values."""
    return mean_interval(values.sum(), np.square(values).sum(), len(values)).each(float)


def per_image(measured: Sequence[float], like: np.ndarray | None = None) -> np.ndarray:
    """The numbers of a candidate as an array; refuses what cannot be compared."""
    values = np.asarray(measured, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise BadResult(
            f"the measurement gave an array of shape {values.shape} with {int((~np.isfinite(values)).sum())} numbers "
            "that are not finite; expected one number per image, e.g. 1 where the model is right and 0 where not"
        )
    if like is not None and len(values) != len(like):
        raise BadResult(
            f"the measurement gave {len(values)} numbers for this candidate and {len(like)} for the one before; "
            "measure all candidates on the same images"
        )
    return values


@dataclass(frozen=True)
class Position:
    """Where the search stands: what is kept, and the stage (from 0) that it works on."""

    room: Counts  # MSA blocks that each stage can hold
    budget: int
    kept: Counts
    stage: int

    @property
    def proposal(self) -> tuple[int, Counts] | None:
        """The stage that is to get an MSA block, and the counts with it; None at the end."""
        possible = [s for s in range(self.stage + 1) if self.kept[s] < self.room[s]]
        if sum(self.kept) >= self.budget or not possible:
            return None
        return possible[-1], tuple(n + (s == possible[-1]) for s, n in enumerate(self.kept))

    def after(self, improved: bool) -> Position:
        """Where it stands once the proposal is decided on: on the same stage, or on an earlier one."""
        assert self.proposal is not None
        stage, counts = self.proposal
        if improved:
            return replace(self, kept=counts, stage=stage)
        return replace(self, stage=stage - 1)


def upcoming(position: Position, number: int) -> list[Counts]:
    """The proposal, what comes if it fails, what comes if it does not, and so on: `number` of them."""
    found: dict[Counts, None] = {}
    positions = deque([position])
    while positions and len(found) < number:
        here = positions.popleft()
        if here.proposal is not None:
            found[here.proposal[1]] = None
            positions.extend((here.after(False), here.after(True)))
    return list(found)


@dataclass(frozen=True)
class Search:
    """All that a search needs to know."""

    stages: Sequence[ConvStage]  # of the base model
    rule: BuildUp  # budget and how to decide; its steps are filled in
    job: Callable[[Counts], Job]  # of a candidate
    save: Callable[[BuildUp], None]  # called with the table after every candidate
    progress: bool  # tell every decision on stderr

    def run(self, runner: Runner) -> BuildUp:
        """Try candidates until the budget is used or nothing is left."""
        room = tuple(len(stage.replaceable) for stage in self.stages)
        none = (0,) * len(room)
        position = Position(room, self.rule.budget, none, len(room) - 1)
        begun = self._begin(runner, [none, *upcoming(position, runner.room - 1)])
        outcome = runner.wait(self.job(none))
        kept = per_image(outcome.result["scores"])
        table = self._add(self.rule, self._step(0, None, none, outcome, kept, None), position)
        while position.proposal is not None:
            stage, counts = position.proposal
            wanted = self._begin(runner, upcoming(position, runner.room))
            for dropped in begun - wanted:
                runner.drop(self.job(dropped))
            begun = wanted
            outcome = runner.wait(self.job(counts))
            scores = per_image(outcome.result["scores"], like=kept)
            step = self._step(len(table.steps), stage, counts, outcome, scores, kept)
            position = position.after(step.kept)
            kept = scores if step.kept else kept
            table = self._add(table, step, position)
        return table

    def _begin(self, runner: Runner, candidates: Sequence[Counts]) -> set[Counts]:
        for counts in candidates:
            runner.start(self.job(counts))
        return set(candidates)

    def _step(
        self,
        number: int,
        stage: int | None,
        counts: Counts,
        outcome: Outcome,
        scores: np.ndarray,
        before: np.ndarray | None,
    ) -> Step:
        difference = (np.nan,) * 3 if before is None else interval_of_mean(scores - before)
        gain = difference[1] if self.rule.significant else difference[0]
        unit = None if stage is None else self.stages[stage].replaceable[counts[stage] - 1].unit.name
        return Step(
            number,
            None if stage is None else stage + 1,
            unit,
            counts,
            *interval_of_scores(scores),
            *difference,
            kept=before is None or gain > self.rule.min_gain,
            n=len(scores),
            parameters=outcome.result["parameters"],
            seconds=outcome.seconds,
        )

    def _add(self, table: BuildUp, step: Step, position: Position) -> BuildUp:
        """The table with one row more, saved and told."""
        table = replace(table, steps=(*table.steps, step), complete=position.proposal is None)
        self.save(table)
        if self.progress:
            print(_told(step), file=sys.stderr)
        return table


def _told(step: Step) -> str:
    score = f"score {step.score:.4f} ({step.low:.4f} to {step.high:.4f})"
    if step.unit is None:
        return f"build-up: no MSA block: {score}"
    change = f"{step.difference:+.4f} ({step.difference_low:+.4f} to {step.difference_high:+.4f})"
    verdict = "kept" if step.kept else "not kept"
    counts = ", ".join(map(str, step.msa))
    return f"build-up: msa {counts} (stage {step.stage}, {step.unit}): {score}, {change}: {verdict}"
