"""`python -m vitscope.studies JOB.json --trust-code`: do one job, unless it is done.

A job file names the function that is called, hence the leave; who starts a job that it has just written gives it.
Without a file it does those that are named on its standard input (see `workers`).
"""

import contextlib
import sys

from vitscope.core.errors import VitscopeError
from vitscope.core.interrupt import Terminated, termination_raises
from vitscope.studies.job import Job, execute
from vitscope.studies.runners import END_WITH_STARTER, TRUST_CODE, end_with_starter
from vitscope.studies.workers import work


def main(arguments: list[str]) -> int:
    """Do the job in a file; the exit code is 0 if it is done."""
    files = [argument for argument in arguments if argument not in (END_WITH_STARTER, TRUST_CODE)]
    if not files and {END_WITH_STARTER, TRUST_CODE} <= set(arguments):
        with contextlib.suppress(Terminated), termination_raises():
            work()
        return 143
    if END_WITH_STARTER in arguments:
        end_with_starter()
    if len(files) != 1:
        print("usage: python -m vitscope.studies JOB.json --trust-code", file=sys.stderr)
        return 2
    try:
        job = Job.read(files[0])
        if TRUST_CODE not in arguments:
            raise VitscopeError(
                f"{files[0]} names code, which was not run: {job.function} with {dict(job.arguments)}; "
                f"if you trust where it comes from, add {TRUST_CODE}"
            )
        with termination_raises():
            execute(job)
    except VitscopeError as error:
        print(f"vitscope: {error}", file=sys.stderr)
        return 1
    except Terminated:
        return 143
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
