"""Several studies at once: one pool of jobs, so that nobody is idle as long as any of them has something to do.

A job that several studies need is done once. The first seed of all studies comes first, then the second, and so on. A
study is summed up whenever all its jobs with so many seeds are over, while the others go on: what was found can be
looked at, and is there after Ctrl-C.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from vitscope.core.errors import VitscopeError, warn
from vitscope.studies.cost import Cost, costs_of, packages_of
from vitscope.studies.graph import Node, Plan
from vitscope.studies.rehearsal import Rehearsal
from vitscope.studies.resolve import errors_about
from vitscope.studies.run import Seen, StudyRequest, do_jobs, failed, plan_request, sum_up
from vitscope.studies.schedule import Tasks
from vitscope.studies.study import Study

_NAMED = 4  # studies that a title names one by one


@dataclass(frozen=True)
class Pooled:
    """A study of the pool.

    Attributes:
        name: How lines about it begin.
        study: What it is with so many seeds.
        folder: For its tables and its page.
        there: Seeds that are there already, summed up.
    """

    name: str
    study: Callable[[int], Study]
    folder: Path
    there: int = 0


@dataclass(frozen=True, eq=False)
class _Stage:
    """A study with so many seeds; `new` are the jobs that it adds to those of the stage before."""

    pooled: Pooled
    plan: Plan
    new: Mapping[str, Node]

    def is_over(self, tasks: Tasks) -> bool:
        """Whether nothing more will come."""
        return not any(_state(key, tasks) in ("waiting", "running") for key in self.plan.missing)

    def tells(self, tasks: Tasks) -> bool:
        """Whether there is anything in it that was not there before; jobs that the budget leaves out tell nothing."""
        return not self.new or any(_state(key, tasks) in ("done", "failed") for key in self.new)


def do_studies(
    studies: list[Pooled], seeds: int, request: StudyRequest, seconds: float | None = None
) -> None:
    """Do what is missing of all of them, with `seeds` seeds of every arm; jobs that failed are warned about.

    Args:
        studies: The order in which they are done, as far as it matters.
        seeds: Of every arm.
        request: How; its source and its budget are not used.
        seconds: The budget of all together.
    """
    Pool([one for one in studies if one.there < seeds], seeds, request).do(seconds)


class Pool:
    """Studies that are done together; `do_studies` documents the arguments."""

    def __init__(self, studies: list[Pooled], seeds: int, request: StudyRequest) -> None:
        self.request = request
        self.planned: dict[str, tuple[Plan, Rehearsal]] = {}
        self.said: dict[str, list[str]] = {}  # about every study
        seen = Seen()
        for one in studies:
            with errors_about(one.name):
                self.planned[one.name] = plan_request(replace(request, source=one.study(seeds)), seen)
        numbers = range(1, seeds + 1)
        self.stages = [self._stage(one, n) for n in numbers for one in studies if one.there < n]

    def do(self, seconds: float | None = None) -> None:
        """Do what is missing, as far as it fits into so many seconds, and sum it up."""
        title = _title(list(self.planned))
        tasks = do_jobs(self.request, title, self.packages(), self._costs, seconds, self.sum_one_up).tasks
        while self.stages:
            self.sum_one_up(tasks)
        for name, lines in self.said.items():
            for line in lines:
                warn(f"{name}: {line}")

    def packages(self) -> list[list[Node]]:
        """The jobs that belong together, the most telling first."""
        packages = []
        for stage in self.stages:
            whose = stage.pooled.name if len(self.planned) > 1 else ""
            for package in packages_of(replace(stage.plan, missing=dict(stage.new))):
                packages.append([replace(node, study=whose) for node in package])
        return packages

    def sum_one_up(self, tasks: Tasks) -> None:
        """Sum up the next study of which all jobs are over, if there is one, with as many seeds as are over."""
        first = next((stage for stage in self.stages if stage.is_over(tasks)), None)
        if first is None:
            return
        own = [stage for stage in self.stages if stage.pooled is first.pooled and stage.is_over(tasks)]
        self.stages = [stage for stage in self.stages if stage not in own]
        telling = [stage for stage in own if stage.tells(tasks)]
        if not telling:
            return
        plan, pooled = telling[-1].plan, first.pooled
        said = [f"{plan.missing[task.node.key].title}: {task.failures[-1]}" for task in failed(plan, tasks)]
        try:
            sum_up(plan, tasks, pooled.folder)
        except VitscopeError as error:  # which is no reason to stop the others
            said.append(str(error))
        self.said[pooled.name] = said

    def _stage(self, pooled: Pooled, number: int) -> _Stage:
        plan = self.planned[pooled.name][0]
        here, first = plan.of(pooled.study(number)), number == pooled.there + 1
        before = {} if first else plan.of(pooled.study(number - 1)).missing
        return _Stage(pooled, here, {key: node for key, node in here.missing.items() if key not in before})

    def _costs(self) -> dict[str, Cost]:
        costs: dict[str, Cost] = {}
        for plan, rehearsal in self.planned.values():
            costs |= costs_of(plan, rehearsal)
        return costs


def _state(key: str, tasks: Tasks) -> str:
    return tasks[key].state if key in tasks else "left out"


def _title(names: list[str]) -> str:
    if len(names) > _NAMED:
        return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
    return ", ".join(names)
