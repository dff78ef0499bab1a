"""The jobs of a study from the first to the last, on whatever does them.

A job begins when those that it needs are done and there is room; what a trained model is wanted for comes before the
next training, so that no weights lie about half used. One that fails is tried again, then it is reported with its log,
and what needs it is left out while the rest goes on. What is done is in the store: after Ctrl-C, or after
a machine that went down, the same study goes on from there.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from vitscope.studies.graph import Node
from vitscope.studies.runners import JobFailed, Runner
from vitscope.studies.store import Store

State = Literal["waiting", "running", "done", "failed", "left out"]
Tasks = Mapping[str, "Task"]
_POLL = 0.05  # seconds between two looks


@dataclass
class Task:
    """A job under way: where it stands."""

    node: Node
    state: State = "waiting"
    began: float = 0.0  # by `time.monotonic`
    seconds: float = 0.0  # that it took
    failures: list[str] = field(default_factory=list)  # why, one for every time


@dataclass(frozen=True)
class Report:
    """How the jobs of a study ended."""

    tasks: Tasks

    def of(self, state: State) -> list[Task]:
        """The tasks that are in this state, in order."""
        return [task for task in self.tasks.values() if task.state == state]

    @property
    def failures(self) -> list[str]:
        """A line for each job that failed and what it kept others from."""
        return [f"{task.node.title}: {task.failures[-1]}" for task in self.of("failed")]


class Schedule:
    """Does the jobs that are missing.

    Args:
        nodes: In the order in which they should begin, if they can.
        store: That their results go to.
        runner: Does them.
        retries: How often a job that failed is tried again.
        seconds: After this time no job begins any more; None: until all are done.
        expected: How long a job takes, if that is known; one that would not be done in time does not begin.
        show: Is given all tasks whenever one changes, and now and then.
        meanwhile: Is given them, too, when everybody has something to do: the moment for work of one's own.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        store: Store,
        runner: Runner,
        retries: int = 1,
        seconds: float | None = None,
        expected: Callable[[Node], float | None] = lambda node: None,
        show: Callable[[Tasks], object] = lambda tasks: None,
        meanwhile: Callable[[Tasks], object] = lambda tasks: None,
    ) -> None:
        self.tasks = {node.key: Task(node) for node in nodes}
        self._store, self._runner, self._retries, self._show = store, runner, retries, show
        self._until = None if seconds is None else time.monotonic() + seconds
        self._expected, self._meanwhile = expected, meanwhile

    def run(self) -> Report:
        """Until nothing is left that could be done."""
        for task in self.tasks.values():  # it is missing, whatever was written down when it was last done
            self._store.forget_outcome(task.node.kind, task.node.key)
        while True:
            self._begin()
            running = [task for task in self.tasks.values() if task.state == "running"]
            if not running:
                break
            self._show(self.tasks)
            self._meanwhile(self.tasks)
            if any([self._look(task) for task in running]):
                self._show(self.tasks)
            else:
                time.sleep(_POLL)
        for task in self.tasks.values():
            task.state = "left out" if task.state == "waiting" else task.state
        self._show(self.tasks)
        return Report(self.tasks)

    def _begin(self) -> None:
        """Start what can begin, as far as there is room."""
        running = [task.node for task in self.tasks.values() if task.state == "running"]
        room = self._runner.room - len(running)
        under_way = {key for node in running for key in node.makes}
        for task in sorted(self.tasks.values(), key=lambda task: task.node.kind == "train"):
            if room <= 0:
                return
            if task.state != "waiting" or task.node.makes & under_way:  # which it will find when it begins
                continue
            if self._is_ready(task) and self._is_in_time(task):
                self._runner.start(task.node.job)
                task.state, task.began = "running", time.monotonic()
                under_way |= task.node.makes
                room -= 1

    def _is_ready(self, task: Task) -> bool:
        needed = [self.tasks[key] for key in task.node.needs if key in self.tasks]
        return all(one.state == "done" for one in needed)

    def _is_in_time(self, task: Task) -> bool:
        return self._until is None or time.monotonic() + (self._expected(task.node) or 0.0) <= self._until

    def _look(self, task: Task) -> bool:
        """Whether a job that was running is not any more."""
        try:
            outcome = self._runner.poll(task.node.job)
        except JobFailed as error:
            task.failures.append(str(error))
            task.state = "waiting" if len(task.failures) <= self._retries else "failed"
            if task.state == "failed":
                self._leave_out({task.node.key})
            return True
        if outcome is None:
            return False
        task.state, task.seconds = "done", outcome.seconds
        return True

    def _leave_out(self, gone: set[str]) -> None:
        """What needs a job that failed, and what needs that."""
        while gone:
            left_out = [
                task for task in self.tasks.values() if task.state == "waiting" and gone & {*task.node.needs}
            ]
            for task in left_out:
                task.state = "left out"
            gone = {task.node.key for task in left_out}
