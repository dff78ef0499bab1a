"""Processes of this machine that do one job after another: what a job needs is imported once, not for every job.

A worker is `python -m vitscope.studies --end-with-starter --trust-code`: it reads the paths of job files from its
standard input and answers each with a line. What a job says goes to `out/job/log.txt`.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

from vitscope.core.errors import VitscopeError
from vitscope.studies.job import Job, Outcome, outcome_of
from vitscope.studies.runners import (
    END_WITH_STARTER,
    LOG,
    TRUST_CODE,
    JobFailed,
    LocalProcesses,
    Process,
    end_processes,
    end_this,
    execute_logged,
    failure,
    start_process,
)


class LocalWorkers(LocalProcesses):
    """Does up to `workers` jobs at once; a worker that ends in the middle of a job is replaced by a new one.

    Args:
        workers: How many.
        threads: Of each; default: its share of the cores, unless the environment says how many.
        gpus: Of each; they are numbered from 0. Default: all jobs see all.
    """

    def __init__(self, workers: int, threads: int | None = None, gpus: int | None = None) -> None:
        super().__init__(workers, threads, gpus)
        self._idle: dict[int, Process] = {}  # by place

    def poll(self, job: Job) -> Outcome | None:
        """See `Runner`."""
        process = self._running.get(job.folder)
        if process is None:
            self._begin()
            return outcome_of(job)
        answer = _answer(process)
        if answer is None and process.poll() is None:
            return None
        del self._running[job.folder]
        if answer is not None:
            self._idle[self._places[job.folder]] = process
        self._begin()
        done = outcome_of(job)
        if done is not None:
            return done
        if answer:
            raise JobFailed(answer)
        end_processes([process])
        raise failure(job, process.returncode)

    def close(self) -> None:
        """See `Runner`."""
        idle = list(self._idle.values())
        self._idle.clear()
        for process in idle:  # they are waiting, and end at once
            process.kill()
        end_processes(idle)
        super().close()

    def _launch(self, job: Job, place: int) -> Process:
        path = job.write()
        process = self._idle.pop(place, None)
        if process is None or process.poll() is not None:
            command = [sys.executable, "-m", "vitscope.studies", END_WITH_STARTER, TRUST_CODE]
            with open(path.with_name(LOG), "ab") as log:
                process = start_process(command, subprocess.PIPE, log, self._environment(place))
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
        assert process.stdin is not None
        try:
            process.stdin.write(f"{path.absolute()}\n".encode())
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it has just died, which the next look finds
        return process


def _answer(process: Process) -> str | None:
    """What a worker has said about its job, empty if it is done; None while it is at it."""
    assert process.stdout is not None
    line = process.stdout.readline()
    return json.loads(line) if line.endswith(b"\n") else None


def work() -> NoReturn:
    """In a worker: do the jobs that are named on standard input; when that closes, end as SIGTERM does."""
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer

    def listen() -> None:
        left = b""
        while piece := os.read(0, 4096):  # not sys.stdin, whose lock a thread must not hold when Python ends
            *lines, left = (left + piece).split(b"\n")
            for line in lines:
                jobs.put(line.decode())
        end_this()

    threading.Thread(target=listen, daemon=True).start()
    while True:
        path = jobs.get()
        try:
            execute_logged(Job.read(Path(path)))
            said = ""
        except VitscopeError as error:
            said = str(error) or "it gave no reason"
        print(json.dumps(said), file=answers, flush=True)
