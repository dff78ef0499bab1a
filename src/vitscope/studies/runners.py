"""Who does jobs: this process, processes of this machine, or a Ray cluster.

A runner is told which jobs to start and then waited on for one of them, so that jobs can be begun on speculation and
dropped when they turn out not to be needed.

A local process is `python -m vitscope.studies out/job/job.json`, what it says goes to `out/job/log.txt`. It ends with
the one that started it: it reads its standard input, a pipe that closes when the other end is gone, however that came
about. The machines of a cluster must share the folders of the jobs.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from vitscope.core.errors import VitscopeError
from vitscope.studies.job import Job, Outcome, address, execute, find_function, outcome_of

Backend = Literal["local", "ray"]
LOG = "log.txt"
END_WITH_STARTER = "--end-with-starter"
TRUST_CODE = "--trust-code"
_POLL = 0.05  # seconds between two looks
_PATIENCE = 20.0  # seconds that a job has to end when asked to
_LAST_LINES = 3


class JobFailed(VitscopeError):
    """A job in another process ended with an error; the message holds the end of its log."""


class Runner:
    """Does jobs in this process, each when it is waited for; a context manager."""

    room = 1  # jobs that can be under way at once

    def start(self, job: Job) -> None:
        """Let a job begin as soon as there is room; one that is under way or done is left at that."""

    def wait(self, job: Job) -> Outcome:
        """The job's outcome; begins it if that was not done yet."""
        return execute(job)

    def drop(self, job: Job) -> None:
        """End a job that nobody waits for any more."""

    def close(self) -> None:
        """End all that is under way."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_importable(job: Job) -> None:
    """Refuse a function that another process would not find."""
    for function in (job.function, *job.arguments.values()):
        if isinstance(function, str) or not callable(function):
            continue
        name = address(function)
        try:
            same = not name.startswith("__main__:") and find_function(name) is function
        except VitscopeError:
            same = False
        if not same:
            raise VitscopeError(
                f"another process cannot import '{name}'; put the function at the top of a module, or use workers=0"
            )


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
    # processes that each take all cores slow each other down
    threads = max((os.cpu_count() or 1) // workers, 1)
    command = [sys.executable, "-m", "vitscope.studies", str(path), END_WITH_STARTER, TRUST_CODE]
    env = {"OMP_NUM_THREADS": str(threads), **os.environ}
    with open(path.with_name(LOG), "ab") as log:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=env)


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


class RayCluster(Runner):
    """Lets Ray place the jobs; `workers` of them at once, as far as the cluster has room."""

    def __init__(self, workers: int, address: str | None) -> None:
        try:
            import ray  # type: ignore[import-not-found]
        except ImportError as error:
            raise VitscopeError(
                "backend 'ray' needs Ray, which is not installed: pip install ray, or use workers=N on this machine"
            ) from error
        self.room = max(workers, 1)
        self._ray = ray
        ray.init(address=address, ignore_reinit_error=True)
        self._execute = ray.remote(_execute_file)
        self._begun: dict[Path, Any] = {}

    def start(self, job: Job) -> None:
        """See `Runner`."""
        check_importable(job)
        if job.folder not in self._begun and outcome_of(job) is None:
            self._begun[job.folder] = self._execute.remote(str(job.write().absolute()))

    def wait(self, job: Job) -> Outcome:
        """See `Runner`."""
        self.start(job)
        begun = self._begun.pop(job.folder, None)
        try:
            if begun is not None:
                self._ray.get(begun)
        except self._ray.exceptions.RayError as error:
            raise JobFailed(f"job {job.out} failed on the cluster: {error}") from error
        done = outcome_of(job)
        if done is None:
            raise JobFailed(
                f"job {job.out} left no result here; the cluster's machines and this one must share that folder"
            )
        return done

    def drop(self, job: Job) -> None:
        """See `Runner`."""
        begun = self._begun.pop(job.folder, None)
        if begun is not None:
            self._ray.cancel(begun, force=True)

    def close(self) -> None:
        """See `Runner`."""
        for begun in self._begun.values():
            self._ray.cancel(begun, force=True)
        self._begun.clear()


def _execute_file(path: str) -> None:
    execute(Job.read(path))


def make_runner(workers: int = 0, backend: Backend = "local", address: str | None = None) -> Runner:
    """The runner for so many workers.

    Args:
        workers: Jobs at once in processes of their own; 0: one after another in this process.
        backend: "local" for this machine, "ray" for a cluster.
        address: Of the Ray cluster; None: the one that Ray finds, or a new one on this machine.
    """
    if workers < 0:
        raise VitscopeError(f"workers is {workers}; expected 0 (this process) or a number of processes")
    if backend == "ray":
        return RayCluster(workers, address)
    if backend != "local" or address is not None:
        raise VitscopeError(
            f"backend '{backend}' with address {address!r}; expected 'local' without one, or 'ray'"
        )
    return LocalProcesses(workers) if workers else Runner()


def run_jobs(
    jobs: Sequence[Job], workers: int = 0, backend: Backend = "local", address: str | None = None
) -> list[Outcome]:
    """Do all jobs and give their outcomes in order; the first failure ends the others."""
    with make_runner(workers, backend, address) as runner:
        for job in jobs:
            runner.start(job)
        return [runner.wait(job) for job in jobs]
