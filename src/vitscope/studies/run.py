"""Do a list of jobs."""

from collections.abc import Sequence
from typing import Literal

from vitscope.core.errors import VitscopeError
from vitscope.studies.job import Job, Outcome
from vitscope.studies.local_processes import LocalProcesses
from vitscope.studies.ray_engine import RayCluster
from vitscope.studies.runner import Runner

Backend = Literal["local", "ray"]


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
