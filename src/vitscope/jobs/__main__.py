"""`python -m vitscope.jobs JOB.json`: do one job, unless it is done."""

import sys

from vitscope.errors import VitscopeError
from vitscope.interrupt import Terminated, termination_raises
from vitscope.jobs.job import Job, execute
from vitscope.jobs.processes import END_WITH_STARTER, end_with_starter


def main(arguments: list[str]) -> int:
    """Do the job in a file; the exit code is 0 if it is done."""
    if END_WITH_STARTER in arguments:
        arguments = [argument for argument in arguments if argument != END_WITH_STARTER]
        end_with_starter()
    if len(arguments) != 1:
        print("usage: python -m vitscope.jobs JOB.json", file=sys.stderr)
        return 2
    try:
        with termination_raises():
            execute(Job.read(arguments[0]))
    except VitscopeError as error:
        print(f"vitscope: {error}", file=sys.stderr)
        return 1
    except Terminated:
        return 143
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
