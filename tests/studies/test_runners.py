import itertools
import os
import signal
import subprocess
import sys

import pytest

from tests.processes import alive, wait_for
from tests.studies import functions
from vitscope.core.errors import VitscopeError
from vitscope.studies import Job, JobFailed, make_runner, run_jobs
from vitscope.studies.runners import LocalProcesses


@pytest.mark.parametrize("workers", [0, 2])
def test_outcomes_in_order(tmp_path, workers):
    jobs = [Job(functions.add, {"a": i, "b": 10}, tmp_path / str(i)) for i in range(3)]
    assert [outcome.result["sum"] for outcome in run_jobs(jobs, workers=workers)] == [10, 11, 12]
    pids = {(tmp_path / str(i) / "calls.txt").read_text().strip() for i in range(3)}
    assert (pids == {str(os.getpid())}) == (workers == 0)
    before = [(tmp_path / str(i) / "calls.txt").read_text() for i in range(3)]
    run_jobs(jobs, workers=2 - workers)  # elsewhere the next time: nothing is done again
    assert [(tmp_path / str(i) / "calls.txt").read_text() for i in range(3)] == before


def test_unknown_places():
    with pytest.raises(VitscopeError, match="workers is -1"):
        make_runner(-1)
    with pytest.raises(VitscopeError, match="expected 'local' without one, or 'ray'"):
        make_runner(1, "slurm")
    with pytest.raises(VitscopeError, match="expected 'local' without one, or 'ray'"):
        make_runner(1, address="auto")


def test_a_function_of_this_process_stays_in_it(tmp_path):
    def local(out):
        return 7

    job = Job(local, {}, tmp_path / "a")
    with pytest.raises(VitscopeError, match="put the function at the top of a module, or use workers=0"):
        run_jobs([job], workers=1)
    assert run_jobs([job])[0].result == 7


def test_functions_among_the_arguments_too(tmp_path):
    job = Job(functions.apply, {"function": lambda x: x + 1, "value": 1}, tmp_path / "a")
    with pytest.raises(VitscopeError, match="another process cannot import"):
        run_jobs([job], workers=1)
    assert run_jobs([job])[0].result == 2


def test_jobs_run_at_the_same_time_and_elsewhere(tmp_path):
    left = Job(functions.meet, {"other": "right"}, tmp_path / "left")
    right = Job(functions.meet, {"other": "left"}, tmp_path / "right")
    with LocalProcesses(2) as runner:
        runner.start(left)
        runner.start(right)
        assert runner.wait(left).result is True
        assert runner.wait(right).result is True


def test_no_more_at_once_than_workers(tmp_path):
    jobs = [Job(functions.shift, {}, tmp_path / str(i)) for i in range(3)]
    with LocalProcesses(1) as runner:
        for job in jobs:
            runner.start(job)
        shifts = sorted(runner.wait(job).result for job in jobs)
    pids = {pid for _, _, pid in shifts}
    assert len(pids) == 3
    assert os.getpid() not in pids
    for (_, ended, _), (began, _, _) in itertools.pairwise(shifts):
        assert ended <= began


def test_failures_come_with_the_end_of_the_log(tmp_path):
    with LocalProcesses(1) as runner:
        with pytest.raises(
            JobFailed, match=r"code 1: vitscope: the oven is cold; expected 200 degrees \(all of it"
        ):
            runner.wait(Job(functions.refuse, {}, tmp_path / "a"))
        with pytest.raises(JobFailed, match="ZeroDivisionError: no reason"):
            runner.wait(Job(functions.crash, {}, tmp_path / "b"))
    log = (tmp_path / "b" / "job" / "log.txt").read_text()
    assert "about to crash" in log
    assert "Traceback" in log


def test_a_killed_job_is_a_failure_and_can_be_done_again(tmp_path):
    job = Job(functions.nap_until_killed, {}, tmp_path)
    with LocalProcesses(1) as runner:
        runner.start(job)
        wait_for((tmp_path / "pid.txt").exists)
        wait_for(lambda: (tmp_path / "pid.txt").read_text())
        os.kill(int((tmp_path / "pid.txt").read_text()), signal.SIGKILL)
        with pytest.raises(JobFailed, match="ended by signal 9: it said nothing"):
            runner.wait(job)
        assert runner.wait(job).result > 0


def test_dropped_and_closed_jobs_end(tmp_path):
    jobs = [Job(functions.nap, {"seconds": 600}, tmp_path / str(i)) for i in range(2)]
    with LocalProcesses(2) as runner:
        for job in jobs:
            runner.start(job)
        files = [tmp_path / str(i) / "pid.txt" for i in range(2)]
        wait_for(lambda: all(file.exists() and file.read_text() for file in files))
        pids = [int(file.read_text()) for file in files]
        runner.drop(jobs[0])
        assert [alive(pid) for pid in pids] == [False, True]
    assert not alive(pids[1])


@pytest.mark.parametrize(("function", "arguments"), [("nap", {"seconds": 3600}), ("stubborn", {})])
def test_a_job_ends_with_the_process_that_started_it(tmp_path, function, arguments):
    """Even if that one is killed and has no chance to say so, and the job takes no notice of SIGTERM."""
    script = (
        "from vitscope.studies import Job, run_jobs\n"
        f"run_jobs([Job('tests.studies.functions:{function}', {arguments}, {str(tmp_path)!r})], workers=1)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", script])
    file = tmp_path / "pid.txt"
    wait_for(lambda: file.exists() and file.read_text())
    job = int(file.read_text())
    starter.kill()
    starter.wait()
    wait_for(lambda: not alive(job))


def test_cores_are_shared_out(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with LocalProcesses(1000) as runner:
        assert runner.wait(Job(functions.threads, {}, tmp_path / "a")).result == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with LocalProcesses(1) as runner:
        assert runner.wait(Job(functions.threads, {}, tmp_path / "b")).result == "3"


def test_without_ray_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    with pytest.raises(VitscopeError, match=r"pip install 'vitscope\[cluster\]', or use workers=N"):
        run_jobs([Job(functions.add, {"a": 1, "b": 2}, tmp_path)], backend="ray")
