"""A real cluster of two machines, which are processes of this one: jobs, deaths of processes and of machines."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import wait_for
from tests.studies import functions
from tests.studies.fragile import FRAGILE
from tests.studies.tiny_study import contents, tiny_study
from vitscope.core.errors import VitscopeError
from vitscope.studies import Job, JobFailed
from vitscope.studies.ray_runner import RayCluster
from vitscope.studies.run import StudyRequest, do_study


class Machines:
    """A head without room for jobs, and two machines with one core each."""

    def __init__(self, orders: Path) -> None:
        from ray.cluster_utils import Cluster

        self.orders = orders
        self._cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        self.address = self._cluster.address
        self._nodes = [self._add(), self._add()]

    def _add(self) -> Any:
        # Ray lets jobs come after everything else on a machine, which on one that is busy with tests is never
        told = {FRAGILE: str(self.orders), "RAY_worker_niceness": "0"}
        return self._cluster.add_node(num_cpus=1, env_vars=told)

    def lose(self, pid: int) -> None:
        """The machine that this process runs on goes down without a word."""
        lost = next(node for node in self._nodes if _descends(pid, node))
        self._cluster.remove_node(lost, allow_graceful=False)
        self._nodes.remove(lost)

    def replace(self) -> None:
        """As many as there were."""
        while len(self._nodes) < 2:
            self._nodes.append(self._add())

    def shutdown(self) -> None:
        self._cluster.shutdown()


def _descends(pid: int, node: Any) -> bool:
    """Whether the process was started by one of the machine's."""
    own = {process.process.pid for several in node.all_processes.values() for process in several}
    while pid > 1:
        if pid in own:
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return False


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    pytest.importorskip("ray", reason="needs the extra 'cluster'")
    found = Machines(tmp_path_factory.mktemp("orders"))
    yield found
    found.shutdown()


def test_nothing_is_lost_and_nothing_done_twice(machines, tmp_path):
    """A process is killed, then a machine is lost, each in the middle of a job; others run meanwhile."""
    diary = tmp_path / "diary.txt"
    orders = {name: tmp_path / f"{name}.order" for name in ("killed", "lost")}
    for order in orders.values():
        order.touch()
    names = ("killed", "lost", "third", "fourth")
    jobs = {
        name: Job(
            functions.counted, {"diary": str(diary), "order": str(orders.get(name, ""))}, tmp_path / name
        )
        for name in names
    }
    with RayCluster(0, machines.address, cpus=1) as runner:
        assert runner.room == 2
        for job in jobs.values():
            runner.start(job)
        pids = {name: tmp_path / name / "pid.txt" for name in orders}
        wait_for(lambda: all(file.exists() and file.read_text() for file in pids.values()))
        assert runner.poll(jobs["third"]) is None  # there is room for two
        os.kill(int(pids["killed"].read_text()), signal.SIGKILL)
        assert runner.wait(jobs["killed"]).result == "killed"
        machines.lose(int(pids["lost"].read_text()))
        assert [runner.wait(job).result for job in jobs.values()] == list(names)
        wait_for(lambda: runner.room == 1)
    seen = Counter(" ".join(line.split()[:2]) for line in diary.read_text().splitlines())
    assert {name: (seen[f"start {name}"], seen[f"end {name}"]) for name in names} == {
        **{"killed": (2, 1), "lost": (2, 1)},
        **{"third": (1, 1), "fourth": (1, 1)},
    }
    machines.replace()


def test_a_job_that_fails_says_why(machines, tmp_path):
    with RayCluster(0, machines.address) as runner:
        with pytest.raises(JobFailed, match=r"the oven is cold; expected 200 degrees \(all of it"):
            runner.wait(Job(functions.refuse, {}, tmp_path / "a"))
        with pytest.raises(JobFailed, match="ZeroDivisionError: no reason"):
            runner.wait(Job(functions.crash, {}, tmp_path / "b"))
        log = (tmp_path / "b" / "job" / "log.txt").read_text()
        assert "about to crash" in log
        assert "Traceback" in log
        dropped = Job(functions.hold, {}, tmp_path / "c")
        runner.start(dropped)
        wait_for((tmp_path / "c" / "pid.txt").exists)
        runner.drop(dropped)
        assert runner.wait(Job(functions.threads, {}, tmp_path / "d")).result == "1"


def test_no_cluster_there():
    pytest.importorskip("ray", reason="needs the extra 'cluster'")
    with pytest.raises(VitscopeError, match=r"no Ray cluster at 127\.0\.0\.1:1 "):
        RayCluster(0, "127.0.0.1:1")


@pytest.mark.slow  # what is lost with a worker and a node, `test_nothing_is_lost_and_nothing_done_twice` shows, too
def test_a_study_whose_machines_die_gives_the_same_numbers(machines, reference, tmp_path):
    """A process in the middle of a training, and a machine in the middle of an exam; equal to the bit."""
    (machines.orders / "train").write_text("6")
    (machines.orders / "wait").write_text("2")
    request = StudyRequest(
        tiny_study(),
        tmp_path / "store",
        "ray",
        address=machines.address,
        only=["local"],
        retries=0,
        progress=False,
    )
    found: list[Any] = []
    study = threading.Thread(target=lambda: found.append(do_study(request, tmp_path / "out")), daemon=True)
    study.start()
    pid = machines.orders / "wait.pid"
    wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"))
    assert (machines.orders / "train.obeyed").exists()
    machines.lose(int(pid.read_text()))
    study.join(900)
    assert [task.state for task in found[0].report.tasks.values()] == ["done"] * 6
    results = contents(tmp_path / "store")
    assert len(results) == 6
    assert results.items() <= contents(reference).items()
    machines.replace()
