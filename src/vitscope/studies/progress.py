"""What somebody who waits for a study sees: done, running, waiting, time left.

A table that follows on a terminal, else a line for every job that ends.
"""

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from vitscope.results.numbers import duration
from vitscope.studies.graph import Node
from vitscope.studies.schedule import Task, Tasks

if TYPE_CHECKING:
    from rich.table import Table

_ROWS = 24  # of the table on a terminal
_PAUSE = 0.25  # seconds between two of them


class Expectations:
    """How long jobs take: as those like them took, else as they were estimated.

    Args:
        estimates: Seconds by a job's key.
    """

    def __init__(self, estimates: Mapping[str, float] | None = None) -> None:
        self._estimates = dict(estimates or {})
        self._took: dict[Any, list[float]] = {}
        self._counted: set[str] = set()

    def learn(self, tasks: Tasks) -> None:
        """Take in what has been done."""
        for key, task in tasks.items():
            if task.state == "done" and key not in self._counted:
                self._counted.add(key)
                for like in _like(task.node):
                    self._took.setdefault(like, []).append(task.seconds)

    def of(self, node: Node) -> float | None:
        """Seconds, or None where nothing is known."""
        same_arm, same_kind = (self._took.get(like) for like in _like(node))
        if same_arm:
            return sum(same_arm) / len(same_arm)
        if node.key in self._estimates:
            return self._estimates[node.key]
        return sum(same_kind) / len(same_kind) if same_kind else None

    def left(self, tasks: Tasks, room: int) -> tuple[float, bool]:
        """Seconds until all are done, and whether that is all: jobs of which nothing is known come on top."""
        now, total, longest, known = time.monotonic(), 0.0, 0.0, True
        for task in tasks.values():
            if task.state in ("waiting", "running"):
                expected = self.of(task.node)
                known = known and expected is not None
                spent = now - task.began if task.state == "running" else 0.0
                left = max((expected or 0.0) - spent, 0.0)
                total, longest = total + left, max(longest, left)
        return max(total / max(room, 1), longest), known


def _like(node: Node) -> tuple[Any, Any]:
    """Jobs of the same kind on the same arm, and on any."""
    return (node.kind, node.labels, node.study, node.arm), (node.kind, node.labels)


class Show(AbstractContextManager["Show"]):
    """Follows a study on standard error.

    Args:
        title: Of the study.
        expectations: How long jobs take.
        room: Jobs at once.
        shown: Whether anything is shown at all.
    """

    def __init__(
        self, title: str, expectations: Expectations, room: Callable[[], int], shown: bool = True
    ) -> None:
        self._title, self._expectations, self._room, self._shown = title, expectations, room, shown
        self._file: TextIO = sys.stderr  # a job in this process takes the place of it
        self._live: Any = None
        self._drawn = 0.0  # by `time.monotonic`
        self._states: dict[str, tuple[str, int]] = {}

    def __enter__(self) -> Self:
        if self._shown and self._file.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._file)
            self._live = Live(
                console=console, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False
            )
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def __call__(self, tasks: Tasks) -> None:
        """Show where the jobs stand."""
        self._expectations.learn(tasks)
        if not self._shown:
            return
        if self._live is not None:
            over = not any(task.state in ("waiting", "running") for task in tasks.values())
            if over or time.monotonic() - self._drawn > _PAUSE:
                self._live.update(self._table(tasks))
                self._drawn = time.monotonic()
            return
        for key, task in tasks.items():
            state = (task.state, len(task.failures))
            if self._states.get(key, ("waiting", 0)) != state:
                self._states[key] = state
                if line := self._line(task, tasks):
                    print(line, file=self._file, flush=True)

    def _line(self, task: Task, tasks: Tasks) -> str:
        if task.state == "running":
            return ""
        if task.state == "done":
            said = f"{task.node.title}: {duration(task.seconds)}; {self._standing(tasks)}"
        elif task.state == "left out":
            said = f"{task.node.title}: left out"
        elif task.state == "failed":  # why is said once all jobs are over
            said = f"{task.node.title}: failed; {self._standing(tasks)}"
        else:
            said = f"{task.node.title}: {task.failures[-1]}; it is tried again"
        return f"{self._title}: {said}"

    def _standing(self, tasks: Tasks) -> str:
        count = {state: sum(task.state == state for task in tasks.values()) for state in _SHOWN}
        parts = [f"{count['done']} of {len(tasks)} jobs done"]
        parts += [f"{count[state]} {state}" for state in _SHOWN[1:] if count[state]]
        seconds, known = self._expectations.left(tasks, self._room())
        if count["running"] or count["waiting"]:
            parts.append(f"{'about' if known else 'more than'} {duration(seconds)} left")
        return ", ".join(parts)

    def _table(self, tasks: Tasks) -> "Table":
        from rich.table import Table

        rows: dict[str, list[Task]] = {}  # by arm, or by study if there are several
        for task in tasks.values():
            rows.setdefault(task.node.study or task.node.arm, []).append(task)
        several = any(task.node.study for task in tasks.values())
        shown = sorted(rows, key=lambda name: _urgency(rows[name]))[:_ROWS]
        caption = self._standing(tasks)
        if len(shown) < len(rows):
            caption += f"\n{len(rows) - len(shown)} more of which no job is running"
        head = "study" if several else "arm"
        table = Table(head, *_SHOWN, "now", box=None, pad_edge=False, title=self._title, caption=caption)
        for column in table.columns[1 : 1 + len(_SHOWN)]:
            column.justify = "right"
        now = time.monotonic()
        for name in (name for name in rows if name in shown):
            counts = [sum(task.state == state for task in rows[name]) for state in _SHOWN]
            running = [
                f"{_without(name, task.node.title)} {duration(now - task.began)}"
                for task in rows[name]
                if task.state == "running"
            ]
            table.add_row(name, *(str(count) if count else "" for count in counts), "; ".join(running))
        return table


_SHOWN = ("done", "running", "waiting", "failed", "left out")


def _urgency(tasks: list[Task]) -> int:
    """Rows with something running come before those that wait, and these before those that are over."""
    states = {task.state for task in tasks}
    return 0 if "running" in states else 1 if "waiting" in states else 2


def _without(name: str, title: str) -> str:
    """The title of a job in the row of an arm or a study, which need not be said again."""
    return title.replace(f" {name},", "").replace(f" {name} ", " ")
