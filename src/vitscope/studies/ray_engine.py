"""Jobs on a Ray cluster, whose machines must share the folders of the jobs."""

from pathlib import Path
from typing import Any

from vitscope.core.errors import VitscopeError
from vitscope.studies.job import Job, Outcome, execute, outcome_of
from vitscope.studies.runner import JobFailed, Runner, check_importable


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
        """Hand the job to the cluster."""
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
