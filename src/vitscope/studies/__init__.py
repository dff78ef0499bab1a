"""A list of jobs: in this process, in processes of this machine, or on a Ray cluster.

    jobs = [Job("package.module:function", {"epochs": n}, f"runs/{n}") for n in (1, 2)]
    outcomes = run_jobs(jobs, workers=2)        # each is function(epochs=n, out=Path("runs/n"))

A job that is done is not done again. The same job by hand:

    python -m vitscope.studies runs/1/job/job.json
"""

from vitscope.studies.engines import Backend, make_runner, run_jobs
from vitscope.studies.job import Function, Job, Outcome, address, execute, find_function, outcome_of
from vitscope.studies.runners import JobFailed, Runner

__all__ = [
    "Backend",
    "Function",
    "Job",
    "JobFailed",
    "Outcome",
    "Runner",
    "address",
    "execute",
    "find_function",
    "make_runner",
    "outcome_of",
    "run_jobs",
]
