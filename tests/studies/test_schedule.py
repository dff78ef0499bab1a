import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.studies import functions
from tests.studies.tiny_study import tiny_study
from vitscope.core.errors import BadArgument
from vitscope.studies.cost import Cost, affordable, packages_of, read_budget
from vitscope.studies.graph import Node, Plan, plan_study
from vitscope.studies.job import Job
from vitscope.studies.progress import Expectations, Show
from vitscope.studies.runners import Runner
from vitscope.studies.schedule import Report, Schedule, Task
from vitscope.studies.store import Store
from vitscope.studies.workers import LocalWorkers


def node(store: Path, key: str, function: Any, needs: tuple[str, ...] = (), **arguments: Any) -> Node:
    job = Job(function, arguments, Store(store).job_folder("train", key))
    return Node("train", key, job, "arm", int(key[-1]), needs)


def states(report: Report) -> dict[str, str]:
    return {key: task.state for key, task in report.tasks.items()}


def test_what_is_needed_comes_first_and_a_failure_keeps_others_from_nothing_else(tmp_path):
    nodes = [
        node(tmp_path, "k0", functions.add, ("k1",), a=1, b=1),  # needs what comes later
        node(tmp_path, "k1", functions.add, a=1, b=2),
        node(tmp_path, "k2", functions.refuse),
        node(tmp_path, "k3", functions.add, ("k2",), a=1, b=3),
        node(tmp_path, "k4", functions.add, ("k3",), a=1, b=4),
        node(tmp_path, "k5", functions.add, ("elsewhere",), a=1, b=5),  # done before
    ]
    report = Schedule(nodes, Store(tmp_path), Runner(), retries=0).run()
    assert states(report) == {
        **{"k0": "done", "k1": "done", "k2": "failed"},
        **{"k3": "left out", "k4": "left out", "k5": "done"},
    }
    assert len(report.failures) == 1
    assert re.match(r"train arm, seed 2: job .* failed: the oven is cold; .*log.txt", report.failures[0])


def test_a_job_that_fails_is_tried_again(tmp_path):
    nodes = [node(tmp_path, f"k{times}", functions.fail_at_first, times=times) for times in range(4)]
    report = Schedule(nodes, Store(tmp_path), Runner(), retries=2).run()
    assert states(report) == {"k0": "done", "k1": "done", "k2": "done", "k3": "failed"}
    assert [len(task.failures) for task in report.tasks.values()] == [0, 1, 2, 3]
    assert "failure number 3" in report.failures[0]


def test_what_is_missing_is_done_even_if_it_was_done_once(tmp_path):
    one = node(tmp_path, "k0", functions.add, a=1, b=1)
    for times in (1, 2):
        assert states(Schedule([one], Store(tmp_path), Runner()).run()) == {"k0": "done"}
        assert len((Path(one.job.out) / "calls.txt").read_text().splitlines()) == times


def test_several_at_once_and_no_more_than_there_is_room(tmp_path):
    pair = [
        node(tmp_path, "k0", functions.meet, other="k1"),
        node(tmp_path, "k1", functions.meet, other="k0"),
        node(tmp_path, "k2", functions.add, a=1, b=1),
    ]
    most: list[int] = []

    def show(tasks: Any) -> None:
        most.append(sum(task.state == "running" for task in tasks.values()))

    with LocalWorkers(2) as runner:
        assert states(Schedule(pair, Store(tmp_path), runner, show=show).run()) == dict.fromkeys(
            ("k0", "k1", "k2"), "done"
        )
    assert max(most) == 2


def test_two_jobs_that_make_the_same_result_are_not_done_at_once(tmp_path):
    """The second finds it there."""

    class TwoAtOnce(Runner):
        room = 2

    wanted = {"k0": "ab", "k1": "bc", "k2": "cd", "k3": "bd"}
    nodes = [
        node(tmp_path, key, functions.look_at, looks=[{"key": one} for one in keys])
        for key, keys in wanted.items()
    ]
    together: list[set[str]] = []

    def show(tasks: Any) -> None:
        together.append({key for key, task in tasks.items() if task.state == "running"})

    report = Schedule(nodes, Store(tmp_path), TwoAtOnce(), show=show).run()
    assert states(report) == dict.fromkeys(wanted, "done")
    assert together[0] == {"k0", "k2"}
    assert all(
        not set(wanted[one]) & set(wanted[other]) for one, other in filter(lambda t: len(t) == 2, together)
    )


def test_what_a_failure_keeps_from_being_done_is_known_at_once(tmp_path):
    nodes = [
        node(tmp_path, "k0", functions.refuse),
        node(tmp_path, "k1", functions.add, ("k0",), a=1, b=1),
        node(tmp_path, "k2", functions.add, ("k1",), a=1, b=1),
        node(tmp_path, "k3", functions.add, a=1, b=1),
    ]
    seen: list[dict[str, str]] = []
    meanwhile = lambda tasks: seen.append({key: task.state for key, task in tasks.items()})  # noqa: E731
    Schedule(nodes, Store(tmp_path), Runner(), retries=0, meanwhile=meanwhile).run()
    assert seen == [
        {"k0": "running", "k1": "waiting", "k2": "waiting", "k3": "waiting"},
        {"k0": "failed", "k1": "left out", "k2": "left out", "k3": "running"},
    ]


def test_what_a_trained_model_is_wanted_for_comes_before_the_next_training(tmp_path):
    nodes = [
        node(tmp_path, "k0", functions.add, a=1, b=1),
        node(tmp_path, "k1", functions.add, a=1, b=1),
        replace(node(tmp_path, "k2", functions.add, ("k1",), a=1, b=1), kind="examine"),
        replace(node(tmp_path, "k3", functions.add, ("k0",), a=1, b=1), kind="examine"),
    ]
    order: list[str] = []
    meanwhile = lambda tasks: order.extend(key for key, task in tasks.items() if task.state == "running")  # noqa: E731
    Schedule(nodes, Store(tmp_path), Runner(), meanwhile=meanwhile).run()
    assert order == ["k0", "k3", "k1", "k2"]


def test_ctrl_c_leaves_what_is_done(tmp_path):
    nodes = [
        node(tmp_path, "k0", functions.add, a=1, b=1),
        node(tmp_path, "k1", functions.interrupted),
        node(tmp_path, "k2", functions.add, a=1, b=1),
    ]
    with pytest.raises(KeyboardInterrupt):
        Schedule(nodes, Store(tmp_path), Runner()).run()
    assert [(Path(one.job.out) / "job" / "result.json").exists() for one in nodes] == [True, False, False]


def test_no_job_begins_that_would_not_be_done_in_time(tmp_path):
    nodes = [node(tmp_path, f"k{i}", functions.add, a=1, b=1) for i in range(3)]
    expected = {"k0": 1.0, "k1": 1e6, "k2": None}
    report = Schedule(nodes, Store(tmp_path), Runner(), 0, 1e5, lambda one: expected[one.key]).run()
    assert states(report) == {"k0": "done", "k1": "left out", "k2": "done"}


def test_a_line_for_every_job_that_ends(tmp_path, capsys, monkeypatch):
    nodes = [
        node(tmp_path, "k0", functions.add, a=1, b=1),
        node(tmp_path, "k1", functions.fail_at_first, times=1),
        node(tmp_path, "k2", functions.refuse),
        node(tmp_path, "k3", functions.add, ("k2",), a=1, b=1),
    ]
    with Show("mine", Expectations(), lambda: 1) as show:
        Schedule(nodes, Store(tmp_path), Runner(), show=show).run()
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"mine: train arm, seed 0: 0\.\d s; 1 of 4 jobs done, 3 waiting, about 0\.\d s left", lines[0]
    )
    assert sum("it is tried again" in line for line in lines) == 2
    assert (
        sum(": failed; 2 of 4 jobs done, " in line for line in lines) == 1
    )  # why is told by who asked for it
    assert lines[-1] == "mine: train arm, seed 3: left out"
    assert len(lines) == 6

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Show("mine", Expectations({"k1": 60.0}), lambda: 2) as show:
        show({"k0": Task(nodes[0], "done", seconds=90.0), "k1": Task(nodes[1])})
    for words in ("mine", "done", "waiting", "1 of 2 jobs done, 1 waiting, about 90 s left"):
        assert words in terminal.getvalue()
    pooled = [replace(nodes[i % 4], key=f"p{i}", study=f"C{i}") for i in range(40)]
    with Show("many", Expectations(), lambda: 2) as show:
        show({one.key: Task(one, "running" if one.study == "C39" else "waiting") for one in pooled})
    rows = terminal.getvalue().partition("many")[2]
    assert re.search(r"C39 .*train arm, seed 3", rows)  # what is running is shown, however many there are
    assert "C22 " in rows
    assert "C23 " not in rows
    assert "16 more of which no job is running" in rows


def test_how_long_it_takes(tmp_path):
    first, second, third = (node(tmp_path, f"k{i}", functions.add) for i in range(3))
    expectations = Expectations({"k1": 40.0})
    assert (expectations.of(first), expectations.of(second)) == (None, 40.0)
    waiting = {"k0": Task(first), "k1": Task(second)}
    assert expectations.left(waiting, 1) == (40.0, False)
    expectations.learn({"k2": Task(third, "done", seconds=10.0)})  # of the same arm: better than an estimate
    assert expectations.of(second) == 10.0
    assert expectations.left(waiting, 1) == (20.0, True)
    assert expectations.left(waiting, 4) == (10.0, True)  # not before the longest is done


@pytest.mark.parametrize(
    ("text", "seconds"), [("6h", 21600), ("90min", 5400), ("1.5 d", 129600), ("30s", 30)]
)
def test_a_budget_in_words(text, seconds):
    assert read_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "6", "h", "0h", "-1h", "6 weeks", "1h30"])
def test_no_budget(text):
    with pytest.raises(BadArgument, match="expected a time such as 6h, 90min or 2d"):
        read_budget(text)


def test_the_most_telling_jobs_fit_first(tmp_path):
    from tests.studies.tiny_study import arms

    plan = plan_study(tiny_study(arms=arms(seeds=(0, 1))), Store(tmp_path))
    seconds = {"train": 100.0, "operate": 1.0, "examine": 10.0}
    costs = {key: Cost(seconds[one.kind], 0, "measured") for key, one in plan.missing.items()}

    def chosen(plan: Plan, budget: float, workers: int = 1) -> list[tuple[str, int, str]]:
        return [
            (one.arm, one.seed, one.kind) for one in affordable(packages_of(plan), costs, budget, workers)
        ]

    compared = [("plain", 0), ("broadcast", 0)]  # 230 seconds: two trainings and three passes
    assert chosen(plan, 229) == []  # half a comparison tells nothing
    assert {place[:2] for place in chosen(plan, 230)} == set(compared)
    assert {place[:2] for place in chosen(plan, 251)} == {*compared, ("local", 0)}
    both = {*compared, ("local", 0), ("plain", 1), ("broadcast", 1)}
    assert {place[:2] for place in chosen(plan, 481)} == both
    assert len(chosen(plan, 502)) == len(plan.missing)
    assert len(chosen(plan, 251, workers=2)) == len(plan.missing)
    assert chosen(plan, 99, workers=100) == []  # a training alone takes longer
