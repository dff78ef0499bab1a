"""The order in which a build-up search tries candidates, and the loop that decides on them.

A candidate is its counts of MSA blocks per stage, nothing else: it does not depend on what was tried before it. So
those that may come next can be done at the same time, on speculation.
"""

import dataclasses
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vitscope.studies.build_up_table import BuildUp, Step, mean_interval, per_image, score_interval
from vitscope.studies.job import Job, Outcome
from vitscope.studies.runners import Runner
from vitscope.surgery.tools.replaceable import ConvStage

Counts = tuple[int, ...]


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

    def after(self, improved: bool) -> "Position":
        """Where it stands once the proposal is decided on: on the same stage, or on an earlier one."""
        assert self.proposal is not None
        stage, counts = self.proposal
        if improved:
            return dataclasses.replace(self, kept=counts, stage=stage)
        return dataclasses.replace(self, stage=stage - 1)


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
    """All that a search needs to know.

    Args:
        stages: Of the base model.
        rule: Budget and how to decide; its steps are filled in.
        job: The job of a candidate.
        save: Called with the table after every candidate.
        progress: Tell every decision on stderr.
    """

    stages: Sequence[ConvStage]
    rule: BuildUp
    job: Callable[[Counts], Job]
    save: Callable[[BuildUp], None]
    progress: bool

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
        difference = (np.nan,) * 3 if before is None else mean_interval(scores - before)
        gain = difference[1] if self.rule.significant else difference[0]
        unit = None if stage is None else self.stages[stage].replaceable[counts[stage] - 1].unit.name
        return Step(
            number,
            None if stage is None else stage + 1,
            unit,
            counts,
            *score_interval(scores),
            *difference,
            kept=before is None or gain > self.rule.min_gain,
            n=len(scores),
            parameters=outcome.result["parameters"],
            seconds=outcome.seconds,
        )

    def _add(self, table: BuildUp, step: Step, position: Position) -> BuildUp:
        """The table with one row more, saved and told."""
        complete = position.proposal is None
        table = dataclasses.replace(table, steps=(*table.steps, step), complete=complete)
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
