"""Who does jobs: this process, or processes of this machine (`ray_runner` has a Ray cluster).

A runner is told which jobs to start and then waited on for one of them, so that jobs can be begun on speculation and
dropped when they turn out not to be needed.

A runner is waited on, or asked now and then what has come of a job (`poll`), as a study does.

A local process is `python -m vitscope.studies out/job/job.json`, what it says goes to `out/job/log.txt`. It ends with
the one that started it: it reads its standard input, a pipe that closes when the other end is gone, however that came
about.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from vitscope.core.errors import VitscopeError
from vitscope.studies.job import Job, Outcome, address, execute, find_function, outcome_of

LOG = "log.txt"
END_WITH_STARTER = "--end-with-starter"
TRUST_CODE = "--trust-code"
Process = subprocess.Popen[bytes]
THREADS = "OMP_NUM_THREADS"
_POLL = 0.05  # seconds between two looks
_PATIENCE = 20.0  # seconds that a job has to end when asked to
_LAST_LINES = 3


class JobFailed(VitscopeError):
    """A job in another process ended with an error; the message holds the end of its log."""


class Runner:
    """Does jobs in this process, each when it is waited for; a context manager.

    Args:
        threads: Of a job; default: as many as this process has.
    """

    room = 1  # jobs that can be under way at once

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads

    def start(self, job: Job) -> None:
        """Let a job begin as soon as there is room; one that is under way or done is left at that."""

    def wait(self, job: Job) -> Outcome:
        """The job's outcome; begins it if that was not done yet."""
        return execute(job)

    def poll(self, job: Job) -> Outcome | None:
        """The outcome of a job that was started, None while it is under way; in this process it is done now.

        Raises:
            JobFailed: It ended with an error. Started again, it gets another chance.
        """
        return execute_logged(job, self._threads)

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
    """Does up to `workers` jobs at once, each in a process of its own.

    Args:
        workers: How many.
        threads: Of each; default: its share of the cores, unless the environment says how many.
        gpus: Of each; they are numbered from 0. Default: all jobs see all.
    """

    def __init__(self, workers: int, threads: int | None = None, gpus: int | None = None) -> None:
        super().__init__(threads)
        self.room, self._gpus = workers, gpus
        self._places: dict[Path, int] = {}  # which of the workers does a job
        self._waiting: dict[Path, Job] = {}
        self._running: dict[Path, Process] = {}

    def start(self, job: Job) -> None:
        """See `Runner`."""
        check_importable(job)
        known = job.folder in self._running or job.folder in self._waiting
        if not known and outcome_of(job) is None:
            self._waiting[job.folder] = job
        self._begin()

    def wait(self, job: Job) -> Outcome:
        """See `Runner`."""
        while (done := self.poll(job)) is None:
            self.start(job)
            time.sleep(_POLL)
        return done

    def poll(self, job: Job) -> Outcome | None:
        """See `Runner`."""
        process = self._running.get(job.folder)
        ended = process is not None and process.poll() is not None  # before the look at what it has left
        done = outcome_of(job)
        if done is None and process is not None and ended:
            del self._running[job.folder]
            raise failure(job, process.returncode)
        self._begin()
        return done

    def drop(self, job: Job) -> None:
        """See `Runner`."""
        self._waiting.pop(job.folder, None)
        process = self._running.pop(job.folder, None)
        if process is not None:
            end_processes([process])

    def close(self) -> None:
        """See `Runner`."""
        self._waiting.clear()
        end_processes(list(self._running.values()))
        self._running.clear()

    def _begin(self) -> None:
        busy = {self._places[folder] for folder, process in self._running.items() if process.poll() is None}
        free = [place for place in range(self.room) if place not in busy]
        for place, folder in zip(free, list(self._waiting), strict=False):
            self._places[folder] = place
            self._running[folder] = self._launch(self._waiting.pop(folder), place)

    def _launch(self, job: Job, place: int) -> Process:
        """A process that is at the job."""
        path = job.write()
        command = [sys.executable, "-m", "vitscope.studies", str(path), END_WITH_STARTER, TRUST_CODE]
        env = self._environment(place)
        with open(path.with_name(LOG), "ab") as log:
            return start_process(command, log, log, env)

    def _environment(self, place: int) -> dict[str, str]:
        # processes that each take all cores slow each other down
        threads = max((os.cpu_count() or 1) // self.room, 1)
        told = {THREADS: str(threads), **os.environ}
        if self._threads is not None:
            told[THREADS] = str(self._threads)
        if self._gpus is not None:
            own = range(place * self._gpus, (place + 1) * self._gpus)
            told["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, own))
        return told


def end_with_starter() -> None:
    """Ask this process to end, as SIGTERM does, when its standard input closes; and end it if it does not."""

    def watch() -> None:
        while os.read(0, 1024):  # not sys.stdin, whose lock a thread must not hold when Python ends
            pass
        end_this()

    threading.Thread(target=watch, daemon=True).start()


def start_process(command: list[str], stdout: Any, stderr: Any, env: Mapping[str, str]) -> Process:
    """A process that Ctrl-C in a terminal does not reach: it is asked to end once, by who has started it."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=stdout, stderr=stderr, env=env, process_group=0)


def end_this() -> None:
    """In a thread: ask this process to end, as SIGTERM does, and end it if it does not."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE)
    os._exit(1)


def end_processes(processes: list[Process]) -> None:
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


def failure(job: Job, code: int) -> JobFailed:
    """What is said about a job whose process ended with this code and left no result."""
    log = job.folder / LOG
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    last = " | ".join(lines[-_LAST_LINES:]) or "it said nothing"
    how = f"was ended by signal {-code}" if code < 0 else f"failed with code {code}"
    return JobFailed(f"job {job.out} {how}: {last} (all of it: {log})")


def execute_logged(job: Job, threads: int | None = None) -> Outcome:
    """Do a job in this process, with what it says in its log, as that of a process of its own is."""
    log = job.write().with_name(LOG)
    before = os.environ.get(THREADS)
    if threads is not None:
        os.environ[THREADS] = str(threads)
    try:
        with open(log, "a") as said, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                return execute(job)
            except Exception:
                traceback.print_exc()
                raise
    except Exception as error:
        why = str(error) if isinstance(error, VitscopeError) else f"{type(error).__name__}: {error}"
        raise JobFailed(f"job {job.out} failed: {why} (all of it: {log})") from error
    finally:
        if before is None:
            os.environ.pop(THREADS, None)
        else:
            os.environ[THREADS] = before
