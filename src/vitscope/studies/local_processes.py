"""Jobs in processes of this machine: `python -m vitscope.studies out/job/job.json`, what they say in `out/job/log.txt`.

A process ends with the one that started it: it reads its standard input, a pipe that closes when the other end is gone,
however that came about.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from vitscope.studies.job import Job, Outcome, outcome_of
from vitscope.studies.runner import JobFailed, Runner, check_importable

LOG = "log.txt"
END_WITH_STARTER = "--end-with-starter"
TRUST_CODE = "--trust-code"
_POLL = 0.05  # seconds between two looks
_PATIENCE = 20.0  # seconds that a job has to end when asked to
_LAST_LINES = 3


class LocalProcesses(Runner):
    """Does up to `workers` jobs at once, each in a process of its own."""

    def __init__(self, workers: int) -> None:
        self.room = workers
        self._waiting: dict[Path, Job] = {}
        self._running: dict[Path, subprocess.Popen[bytes]] = {}

    def start(self, job: Job) -> None:
        """See `Runner`."""
        check_importable(job)
        known = job.folder in self._running or job.folder in self._waiting
        if not known and outcome_of(job) is None:
            self._waiting[job.folder] = job
        self._begin()

    def wait(self, job: Job) -> Outcome:
        """See `Runner`."""
        while True:
            process = self._running.get(job.folder)
            ended = process is not None and process.poll() is not None
            done = outcome_of(job)
            if done is not None:
                return done
            if process is not None and ended:
                del self._running[job.folder]
                raise _failure(job, process.returncode)
            self.start(job)
            time.sleep(_POLL)

    def drop(self, job: Job) -> None:
        """See `Runner`."""
        self._waiting.pop(job.folder, None)
        process = self._running.pop(job.folder, None)
        if process is not None:
            _end([process])

    def close(self) -> None:
        """See `Runner`."""
        self._waiting.clear()
        _end(list(self._running.values()))
        self._running.clear()

    def _begin(self) -> None:
        busy = sum(process.poll() is None for process in self._running.values())
        for folder in list(self._waiting)[: max(self.room - busy, 0)]:
            self._running[folder] = _launch(self._waiting.pop(folder), self.room)


def end_with_starter() -> None:
    """Ask this process to end, as SIGTERM does, when its standard input closes; and end it if it does not."""

    def watch() -> None:
        while os.read(0, 1024):  # not sys.stdin, whose lock a thread must not hold when Python ends
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_PATIENCE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _launch(job: Job, workers: int) -> "subprocess.Popen[bytes]":
    path = job.write()
    threads = max(
        (os.cpu_count() or 1) // workers, 1
    )  # processes that each take all cores slow each other down
    command = [sys.executable, "-m", "vitscope.studies", str(path), END_WITH_STARTER, TRUST_CODE]
    with open(path.with_name(LOG), "ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={"OMP_NUM_THREADS": str(threads), **os.environ},
        )


def _end(processes: "list[subprocess.Popen[bytes]]") -> None:
    """Ask them to end, and end those that do not."""
    for process in processes:
        process.terminate()
    until = time.monotonic() + _PATIENCE
    for process in processes:
        try:
            process.wait(max(until - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _failure(job: Job, code: int) -> JobFailed:
    log = job.folder / LOG
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    last = " | ".join(lines[-_LAST_LINES:]) or "it said nothing"
    how = f"was ended by signal {-code}" if code < 0 else f"failed with code {code}"
    return JobFailed(f"job {job.out} {how}: {last} (all of it: {log})")
