"""`python -m vitscope.studies JOB.json --trust-code`: do one job, unless it is done.

A job file names the function that is called, hence the leave; who starts a job that it has just written gives it.
Without a file it does those that are named on its standard input (see `workers`).
"""

import sys

from vitscope.core.errors import VitscopeError
from vitscope.core.exit import run_program
from vitscope.core.interrupt import exit_code, termination_raises
from vitscope.studies.job import Job, execute
from vitscope.studies.runners import END_WITH_STARTER, TRUST_CODE, end_with_starter
from vitscope.studies.workers import work


def main(arguments: list[str]) -> int:
    """Do the job in a file; the exit code is 0 if it is done."""
    files = [argument for argument in arguments if argument not in (END_WITH_STARTER, TRUST_CODE)]
    if not files and {END_WITH_STARTER, TRUST_CODE} <= set(arguments):
        try:
            with termination_raises():
                work()
        except KeyboardInterrupt as asked:
            return exit_code(asked)
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
    except KeyboardInterrupt as asked:
        return exit_code(asked)
    return 0


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))
