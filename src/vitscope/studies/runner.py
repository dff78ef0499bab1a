"""Who does jobs. This one: the process itself.

A runner is told which jobs to start and then waited on for one of them, so that jobs can be begun on speculation and
dropped when they turn out not to be needed.
"""

from types import TracebackType
from typing import Self

from vitscope.core.errors import VitscopeError
from vitscope.studies.job import Job, Outcome, address, execute, find_function


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
