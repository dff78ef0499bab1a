"""The runner for what a user asks for, and jobs from the first to the last."""

import os
from collections.abc import Sequence
from typing import Literal

from vitscope.core.errors import VitscopeError
from vitscope.studies.job import Job, Outcome
from vitscope.studies.ray_runner import RayCluster
from vitscope.studies.runners import LocalProcesses, Runner
from vitscope.studies.workers import LocalWorkers

Backend = Literal["local", "ray"]
Engine = Literal["here", "local", "ray"]


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


def study_runner(
    engine: Engine, workers: int | None, address: str | None, cpus: int, gpus: float | None
) -> Runner:
    """The runner for the jobs of a study.

    Each has `cpus` threads wherever it is done, so that it gives the same numbers there.

    Args:
        engine: "here": one after another in this process; "local": processes of this machine; "ray": a cluster.
        workers: Jobs at once; default: as many as there is room for.
        address: Of the Ray cluster; None: the one that Ray finds, or a new one on this machine.
        cpus: Cores of a job.
        gpus: GPUs of a job; default: one if this machine has any.
    """
    check_engine(engine, workers, address)
    there = _gpus() if gpus is None or engine == "local" else 0
    wanted = (1.0 if there else 0.0) if gpus is None else gpus
    if engine == "ray":
        return RayCluster(workers or 0, address, cpus, wanted)
    if engine == "here":
        return Runner(cpus)
    if wanted != int(wanted) or (wanted and wanted > there):
        raise VitscopeError(f"gpus_per_job is {wanted:g}; this machine has {there} to give, as whole ones")
    room = max((os.cpu_count() or 1) // cpus, 1)
    room = min(room, there // int(wanted)) if wanted else room
    return LocalWorkers(workers or room, cpus, int(wanted) if there else None)


def check_engine(engine: Engine, workers: int | None, address: str | None) -> None:
    """Refuse what does not go together."""
    if address is not None and engine != "ray":
        raise VitscopeError(
            f"address is '{address}', which only a cluster has; add engine='ray', or leave it out"
        )
    if engine == "here" and workers not in (None, 1):
        raise VitscopeError(
            f"workers is {workers}, and this process does one job at a time; add engine='local'"
        )


def _gpus() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0
