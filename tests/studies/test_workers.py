import os
import signal
import subprocess
import sys

import pytest

from tests.processes import alive, wait_for
from tests.studies import functions
from vitscope.studies import Job, JobFailed
from vitscope.studies.workers import LocalWorkers


def test_one_process_does_one_job_after_another(tmp_path):
    jobs = [Job(functions.shift, {}, tmp_path / str(i)) for i in range(3)]
    with LocalWorkers(1) as runner:
        for job in jobs:
            runner.start(job)
        pids = {runner.wait(job).result[2] for job in jobs}
        assert len(pids) == 1
        assert os.getpid() not in pids
    (pid,) = pids
    wait_for(lambda: not alive(int(pid)))


def test_jobs_run_at_the_same_time_with_their_threads(tmp_path):
    left = Job(functions.meet, {"other": "right"}, tmp_path / "left")
    right = Job(functions.meet, {"other": "left"}, tmp_path / "right")
    with LocalWorkers(2, threads=3) as runner:
        runner.start(left)
        runner.start(right)
        assert runner.wait(left).result is True
        assert runner.wait(right).result is True
        assert runner.wait(Job(functions.threads, {}, tmp_path / "threads")).result == "3"


def test_a_failure_is_told_and_the_worker_goes_on(tmp_path):
    with LocalWorkers(1) as runner:
        with pytest.raises(JobFailed, match=r"the oven is cold; expected 200 degrees \(all of it"):
            runner.wait(Job(functions.refuse, {}, tmp_path / "a"))
        with pytest.raises(JobFailed, match="ZeroDivisionError: no reason"):
            runner.wait(Job(functions.crash, {}, tmp_path / "b"))
        assert "about to crash" in (tmp_path / "b" / "job" / "log.txt").read_text()
        assert runner.wait(Job(functions.add, {"a": 1, "b": 2}, tmp_path / "c")).result == {"sum": 3}


def test_a_worker_that_is_killed_is_replaced(tmp_path):
    job = Job(functions.nap_until_killed, {}, tmp_path / "a")
    with LocalWorkers(1) as runner:
        runner.start(job)
        file = tmp_path / "a" / "pid.txt"
        wait_for(lambda: file.exists() and bool(file.read_text()))
        assert runner.poll(job) is None
        os.kill(int(file.read_text()), signal.SIGKILL)
        with pytest.raises(JobFailed, match="ended by signal 9"):
            runner.wait(job)
        assert runner.wait(job).result != int(file.read_text())
        dropped = Job(functions.nap, {"seconds": 3600}, tmp_path / "b")
        runner.start(dropped)
        file = tmp_path / "b" / "pid.txt"
        wait_for(lambda: file.exists() and bool(file.read_text()))
        runner.drop(dropped)
        assert not alive(int(file.read_text()))
        assert runner.wait(Job(functions.add, {"a": 1, "b": 2}, tmp_path / "c")).result == {"sum": 3}


def test_gpus_are_shared_out(tmp_path):
    with LocalWorkers(2, gpus=2) as runner:
        assert [runner._environment(place)["CUDA_VISIBLE_DEVICES"] for place in range(2)] == ["0,1", "2,3"]


def test_workers_end_with_the_process_that_started_them(tmp_path):
    script = (
        "from vitscope.studies import Job\n"
        "from vitscope.studies.workers import LocalWorkers\n"
        f"runner, out = LocalWorkers(1), {str(tmp_path)!r}\n"
        "runner.wait(Job('tests.studies.functions:add', {'a': 1, 'b': 2}, out + '/a'))\n"
        "runner.wait(Job('tests.studies.functions:nap', {'seconds': 3600}, out + '/b'))\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", script])
    file = tmp_path / "b" / "pid.txt"
    wait_for(lambda: file.exists() and bool(file.read_text()))
    starter.kill()
    starter.wait()
    wait_for(lambda: not alive(int(file.read_text())))
