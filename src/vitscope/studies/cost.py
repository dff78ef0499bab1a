"""What the jobs of a study cost: time of one worker, and disk. And which of them fit into a budget.

Where a job like it was done before, its seconds are taken. Else a training is as long as its steps, of which a few are
taken here, and exams that share a pass are as long as a forward pass over their images. An exam with passes of its own
that was never done says nothing about its time: the sum is then a lower bound, and is called so.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vitscope.core.errors import BadArgument
from vitscope.studies.graph import Node, Plan, pass_key
from vitscope.studies.rehearsal import Rehearsal

Basis = Literal["measured", "a few steps", "one pass", "unknown"]
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_RESULT = 200_000  # bytes of an exam's result, about


@dataclass(frozen=True)
class Cost:
    """What one job takes: time, room on disk, and what the estimate rests on."""

    seconds: float | None  # None: not known
    disk: int  # bytes
    basis: Basis


def costs_of(plan: Plan, rehearsal: Rehearsal) -> dict[str, Cost]:
    """The cost of every job that is missing, by its key."""
    return {key: _cost(node, plan, rehearsal) for key, node in plan.missing.items()}


def seconds_to_start() -> float:
    """How long a process of this machine takes to import what jobs need: that is before its first job, and no job's."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import vitscope.studies.work"], check=False, capture_output=True)
    return time.perf_counter() - began


def read_budget(text: str) -> float:
    """Seconds out of "6h", "90min" or "1.5 d"."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h|d)\s*", text)
    if found is None or not float(found[1]):
        raise BadArgument(f"budget is '{text}'; expected a time such as 6h, 90min or 2d")
    return float(found[1]) * _UNITS[found[2]]


def packages_of(plan: Plan) -> list[list[Node]]:
    """The jobs that tell something together: one seed of all arms that are compared, or of another arm."""
    compared = plan.study.compared
    packages: dict[tuple[int, str], list[Node]] = {}
    for node in plan.missing.values():
        packages.setdefault((node.seed, "" if node.arm in compared else node.arm), []).append(node)
    return list(packages.values())


def jobs_of(packages: Iterable[Iterable[Node]]) -> dict[str, Node]:
    """The jobs of all packages by key, each as the first has it."""
    jobs: dict[str, Node] = {}
    for package in packages:
        for node in package:
            jobs.setdefault(node.key, node)
    return jobs


def affordable(
    packages: Sequence[Sequence[Node]], costs: Mapping[str, Cost], seconds: float, workers: int
) -> list[Node]:
    """The jobs that fit into so many seconds of so many workers, of the most telling packages, which come first.

    A package is taken as a whole, models and exams, or not at all; then single exams fill what is left.
    What is not known to take time is taken to take none: it begins last, and only as long as there is time.
    """
    chosen: dict[str, Node] = {}
    left = seconds * workers
    missing = jobs_of(packages)
    exams = [[node] for node in missing.values() if node.kind == "examine"]
    for package in [*packages, *exams]:
        nodes = [node for node in package if node.key not in chosen]
        times = [costs[node.key].seconds or 0.0 for node in nodes]
        keys = {*chosen, *(node.key for node in nodes)}
        possible = all(need in keys or need not in missing for node in nodes for need in node.needs)
        if nodes and possible and sum(times) <= left and max(times) <= seconds:
            chosen |= {node.key: node for node in nodes}
            left -= sum(times)
    return [node for key, node in missing.items() if key in chosen]


def total(costs: Iterable[Cost]) -> tuple[float, int, bool]:
    """Seconds, bytes, and whether the time of all of them is known."""
    costs = list(costs)
    return (
        sum(cost.seconds or 0.0 for cost in costs),
        sum(cost.disk for cost in costs),
        all(cost.seconds is not None for cost in costs),
    )


def _cost(node: Node, plan: Plan, rehearsal: Rehearsal) -> Cost:
    arm = plan.study.arm(node.arm)
    took = _took(node, plan)
    if node.kind == "examine":
        disk = _RESULT * len(node.labels)
        if took is not None:
            return Cost(took, disk, "measured")
        if not node.shares_a_pass:
            return Cost(None, disk, "unknown")
        return Cost(node.images * rehearsal.speed(arm).image, disk, "one pass")
    speed = rehearsal.speed(arm)
    if node.kind == "operate":
        return Cost(took or 0.0, speed.weights, "measured" if took else "one pass")
    if took is not None:
        return Cost(took, speed.disk, "measured")
    return Cost(speed.training, speed.disk, "a few steps")


def _took(node: Node, plan: Plan) -> float | None:
    """Seconds of the same job with another seed, if that was done."""
    if node.kind == "train":
        done = [
            plan.store.training(key)["seconds"]
            for (arm, _), key in plan.trainings.items()
            if arm == node.arm and key != node.key and plan.store.has_training(key)
        ]
        return sum(done) / len(done) if done else None
    if node.kind == "examine":
        for seed in plan.study.arm(node.arm).seeds:
            keys = [plan.looks[node.arm, seed, label][0] for label in node.labels]
            seconds = plan.store.seconds("examine", pass_key(keys))
            if seconds is not None:
                return seconds
    return None
