"""Jobs on a Ray cluster: `pip install 'vitscope[cluster]'`.

A task of Ray's is one job by its file, and nothing else is sent: the machines must share the folders of the jobs, and
have vitscope. What dies with a process or a machine is started again by Ray elsewhere; the job then finds what it had
done, and waits if somebody else is still at it. So nothing is lost, and nothing is done twice.
"""

import contextlib
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Any

from vitscope.core.errors import VitscopeError
from vitscope.studies.job import Job, Outcome, outcome_of
from vitscope.studies.runners import JobFailed, Runner, check_importable, execute_logged

DEATHS = 3  # of processes or machines that a job may meet before it counts as failed
_CALL = 10.0  # seconds that a cluster has to answer
_PATIENCE = 20.0  # seconds that jobs have to end when asked to


class RayCluster(Runner):
    """Lets Ray place the jobs by what they need.

    Args:
        workers: Jobs at once; 0: as many as the cluster has room for.
        address: Of the cluster; None: the one that Ray finds, or a new one on this machine.
        cpus: Cores, and threads, of a job.
        gpus: GPUs of a job; a half lets two share one.
    """

    def __init__(self, workers: int, address: str | None, cpus: int = 1, gpus: float = 0) -> None:
        try:
            import ray
        except ImportError as error:
            raise VitscopeError(
                "backend 'ray' needs Ray, which is not installed: pip install 'vitscope[cluster]', or use workers=N"
            ) from error
        super().__init__(cpus)
        self._ray: Any = ray
        self._workers, self._cpus, self._gpus = workers, cpus, gpus
        self._ours = not ray.is_initialized()
        if self._ours:
            try:
                _knock(address)
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
            except (OSError, RuntimeError, ValueError) as error:
                raise VitscopeError(
                    f"no Ray cluster at {address or 'this machine'} ({error}); expected an address such as "
                    "10.0.0.1:6379 or ray://10.0.0.1:10001"
                ) from error
        self._execute = ray.remote(_execute_file).options(num_cpus=cpus, num_gpus=gpus, max_retries=DEATHS)
        self._begun: dict[Path, Any] = {}

    @property
    def room(self) -> int:  # type: ignore[override]
        """Jobs that the cluster, as it is now, can do at once."""
        if self._workers:
            return self._workers
        there = self._ray.cluster_resources()
        rooms = [there.get("CPU", 0) / self._cpus]
        rooms += [there.get("GPU", 0) / self._gpus] if self._gpus else []
        return max(int(min(rooms)), 1)

    def start(self, job: Job) -> None:
        """See `Runner`."""
        check_importable(job)
        if job.folder not in self._begun and outcome_of(job) is None:
            file = str(job.write().absolute())
            self._begun[job.folder] = self._execute.remote(file, os.getcwd(), self._cpus)

    def wait(self, job: Job) -> Outcome:
        """See `Runner`."""
        self.start(job)
        if job.folder in self._begun:
            self._ray.wait([self._begun[job.folder]])
        done = self.poll(job)
        assert done is not None
        return done

    def poll(self, job: Job) -> Outcome | None:
        """See `Runner`."""
        begun = self._begun.get(job.folder)
        if begun is not None:
            if not self._ray.wait([begun], timeout=0)[0]:
                return None
            del self._begun[job.folder]
            try:
                why = self._ray.get(begun)
            except self._ray.exceptions.RayError as error:
                last = str(error).strip().splitlines()[-1:]
                raise JobFailed(f"job {job.out} failed on the cluster: {' '.join(last)}") from error
            if why is not None:
                raise JobFailed(why)
        done = outcome_of(job)
        if done is None:
            raise JobFailed(
                f"job {job.out} left no result here; the cluster's machines and this one must share that folder"
            )
        return done

    def drop(self, job: Job) -> None:
        """See `Runner`."""
        self._end([self._begun.pop(job.folder)] if job.folder in self._begun else [])

    def close(self) -> None:
        """See `Runner`."""
        self._end(list(self._begun.values()))
        self._begun.clear()
        if self._ours:
            self._ray.shutdown()

    def _end(self, begun: list[Any]) -> None:
        """Ask jobs to end, as Ctrl-C does, and end those that do not."""
        with contextlib.suppress(TypeError, self._ray.exceptions.RayError):  # the whole cluster is gone
            for one in begun:
                self._ray.cancel(one)
            left = self._ray.wait(begun, num_returns=len(begun), timeout=_PATIENCE)[1] if begun else []
            for one in left:
                self._ray.cancel(one, force=True)


def _knock(address: str | None) -> None:
    """See whether anybody is there: Ray itself tries for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _CALL).close()


def _execute_file(path: str, folder: str, threads: int) -> str | None:
    """In a process of Ray's: do the job; why it failed, if it did."""
    if os.path.isdir(folder):  # relative paths and modules mean what they mean where the study was started
        os.chdir(folder)
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        execute_logged(Job.read(path), threads)
    except JobFailed as error:
        return str(error)
    return None
