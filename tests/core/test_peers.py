"""Real processes of which one hangs: the others say which, end when the time is up, and hear Ctrl-C until then."""

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import Job
from vitscope.cli.app import main
from vitscope.core import distributed, peers
from vitscope.core.errors import VitscopeError

HANG = """
import os, signal, sys, time
from pathlib import Path
from vitscope.core import distributed, peers
from vitscope.cli.app import main
from vitscope.core.exit import run_program

peers.SAY_AFTER = 1.0

def work(options):
    here = Path(__file__).parent / "here"  # the time begins when all are there
    here.mkdir(exist_ok=True)
    (here / os.environ["RANK"]).touch()
    while len(list(here.iterdir())) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.01)
    with distributed.process_group(float(sys.argv[2])):
        distributed.barrier()
        if distributed.rank() == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGSTOP)
        print("came", flush=True)
        {meet}

import vitscope.cli.models
vitscope.cli.models.run = work  # any verb
run_program(lambda: main(["models"]))
"""
MEETINGS = {
    "gather": "distributed.gather({'rank': distributed.rank()})",
    "broadcast": "distributed.broadcast_bytes(b'told'); distributed.barrier()",
    "sum": "import torch; distributed.all_reduce(torch.ones(3))",
    "metric": "from vitscope.engine.pass_scores import PassScores; PassScores(1, 0).finish()",
}


def wait_for(job: Job, condition: Callable[[], bool], ranks: tuple[int, ...]) -> None:
    until = time.monotonic() + 900
    while not condition():
        assert time.monotonic() < until, job.shown
        assert all(job.processes[rank].exitcode is None for rank in ranks), job.shown
        time.sleep(0.02)


def hang(tmp_path: Path, meet: str, rank: int, minutes: float, processes: int) -> Job:
    (tmp_path / "hang.py").write_text(HANG.format(meet=meet))
    return Job(tmp_path / "hang.py", str(rank), str(minutes), processes=processes)


@pytest.mark.parametrize("meet", list(MEETINGS))
def test_who_is_waited_for_is_said_once(tmp_path: Path, meet: str) -> None:
    job = hang(tmp_path, MEETINGS[meet], 2, 60, processes=3)
    try:
        wait_for(job, lambda: "waiting for process 2 of 3 since " in job.shown[1], (0, 1))
    finally:
        job.send(signal.SIGCONT, rank=2)
    shown = job.finish().stderr
    if meet == "metric":  # it has no images; what matters is that all came together
        return
    assert "Traceback" not in shown
    assert not re.search(
        r"waiting for process(es)? [0-9, ]*1[0-9, ]* of 3", job.shown[1]
    )  # who waits is not named


def test_the_time_is_up(tmp_path: Path) -> None:
    job = hang(tmp_path, MEETINGS["gather"], 1, 0.2, processes=3)
    for rank in (0, 2):
        job.processes[rank].join(900)
    job.send(signal.SIGKILL, rank=1)
    assert [process.exitcode for process in (job.processes[0], job.processes[2])] == [2, 2]
    shown = job.finish().stderr
    assert "process 1 of 3 did not answer for " in shown
    assert "--timeout-minutes" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_heard_while_one_is_waited_for(tmp_path: Path, number: signal.Signals) -> None:
    job = hang(tmp_path, MEETINGS["gather"], 1, 60, processes=2)
    wait_for(job, lambda: "waiting for process 1 of 2" in job.shown[1], (0,))
    job.send(number)
    job.processes[0].join(900)  # not 60 minutes
    job.send(signal.SIGKILL, rank=1)
    assert job.processes[0].exitcode == (130 if number == signal.SIGINT else 143)
    assert "Traceback" not in job.finish().stderr


def test_a_process_that_dies_is_noticed_at_once(tmp_path: Path) -> None:
    meet = "distributed.rank() == 1 and os.kill(os.getpid(), signal.SIGKILL); distributed.gather(1)"
    job = hang(tmp_path, meet, 5, 60, processes=2)
    job.processes[0].join(900)
    assert job.processes[0].exitcode == 2
    assert "process 0 of 2 has lost another one, which died or does not answer" in job.finish().stderr


@pytest.mark.parametrize("verb", ["diagnose", "evaluate", "compare", "prescribe"])
def test_verbs_take_the_time(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def joined(minutes: float) -> None:
        asked.append(minutes)
        raise VitscopeError("far enough")

    monkeypatch.setattr(distributed, "process_group", joined)
    models = {"compare": ["vit_mini", "resnet_mini"], "prescribe": ["runs/a"]}.get(verb, ["vit_mini"])
    assert main([verb, *models, "--timeout-minutes", "7.5"]) == 2
    assert asked == [7.5]


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan"), float("inf"), 1e300])
def test_times_that_are_none_are_refused(minutes: float) -> None:
    with pytest.raises(VitscopeError, match="timeout_minutes is"), distributed.process_group(minutes):
        pass


def test_only_network_errors_among_several_processes_are_explained() -> None:
    with pytest.raises(RuntimeError, match="Connection closed by peer"), peers.network_errors_explained():
        raise RuntimeError("Connection closed by peer")  # there is no peer here
