"""`vs.study("cb.yaml")`: read it, do what is missing, sum it up."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vitscope.core.arguments import Count, CountFromZero, NotNegative, SeedCount, checked
from vitscope.core.errors import BadArgument, warn
from vitscope.data.refuse_among_images import refuse_among_images
from vitscope.report.study_page import write_study_page
from vitscope.results.study_result import StudyResult
from vitscope.studies.cost import Cost, affordable, costs_of, jobs_of, packages_of, read_budget
from vitscope.studies.engines import Engine, study_runner
from vitscope.studies.graph import Node, Plan, plan_study
from vitscope.studies.progress import Expectations, Show
from vitscope.studies.rehearsal import Rehearsal, Speed
from vitscope.studies.resolve import OpenedImages
from vitscope.studies.runners import Runner
from vitscope.studies.schedule import Report, Schedule, Task, Tasks
from vitscope.studies.store import Store
from vitscope.studies.study import Study
from vitscope.studies.summary import summarise

STORE = Path("runs/studies")


@dataclass(frozen=True)
class StudyRequest:
    """A study, and how it is to be done; `study` documents the fields."""

    source: str | os.PathLike[str] | Study
    store: str | os.PathLike[str] = STORE
    engine: Engine = "local"
    workers: int | None = None
    address: str | None = None
    cpus_per_job: int = 1
    gpus_per_job: float | None = None
    budget: str | None = None
    seeds: int | None = None
    only: Sequence[str] = ()
    retries: int = 1
    trust_code: bool = False
    progress: bool = True

    def runner(self) -> Runner:
        """Who does the jobs."""
        return study_runner(self.engine, self.workers, self.address, self.cpus_per_job, self.gpus_per_job)


@dataclass(frozen=True)
class Seen:
    """What was opened, built and measured for one study, and need not be for the next."""

    images: OpenedImages = field(default_factory=OpenedImages)
    speeds: dict[str, Speed] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Done:
    """A study as far as it was done."""

    result: StudyResult
    report: Report
    plan: Plan


@checked
def study(
    source: str | os.PathLike[str] | Study,
    out: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] = STORE,
    engine: Engine = "local",
    workers: Count | None = None,
    address: str | None = None,
    *,
    cpus_per_job: Count = 1,
    gpus_per_job: NotNegative | None = None,
    budget: str | None = None,
    seeds: SeedCount | None = None,
    only: Sequence[str] = (),
    retries: CountFromZero = 1,
    trust_code: bool = False,
    progress: bool = True,
) -> StudyResult:
    """Do a study: train what is not trained, examine what is not examined, compare, and write tables and a page.

    What is in the store is not done again; after an interruption the same call goes on.

    Args:
        source: A YAML file, or a `Study`.
        out: Folder for tables and page; default: runs/NAME.
        store: Folder for trained models and results, which all studies share.
        engine: Who does the jobs: "here" (this process), "local" (processes of this machine) or "ray" (a cluster).
        workers: Jobs at once; default: as many as there is room for.
        address: Of the Ray cluster; default: the one that Ray finds, or a new one on this machine.
        cpus_per_job: Threads of each job, whoever does it.
        gpus_per_job: GPUs of each; default: one where this machine has any.
        budget: A time such as "6h": the most telling jobs that fit into it.
        seeds: Instead of those of the study: so many.
        only: Arms to do, with what they start from; default: all.
        retries: How often a job that failed is tried again.
        trust_code: Run code that the file names (see `create_model`).
        progress: Show on stderr where it stands.

    Returns:
        Tables and comparisons of what is there. Jobs that failed are warned about.
    """
    given = StudyRequest(
        source, store, engine, workers, address, cpus_per_job, gpus_per_job, budget, seeds, only, retries
    )
    done = do_study(replace(given, trust_code=trust_code, progress=progress), out)
    for failure in done.report.failures:
        warn(failure)
    return done.result


def plan_request(request: StudyRequest, seen: Seen | None = None) -> tuple[Plan, Rehearsal]:
    """What a study needs, looked at before anything is done."""
    seen = seen or Seen()
    source, file = request.source, None
    if not isinstance(source, Study):
        file, source = os.fspath(source), Study.read(source)
    asked = source.only(request.only) if request.only else source
    asked = asked if request.seeds is None else asked.with_seeds(request.seeds)
    plan = plan_study(asked, Store(request.store), file, request.trust_code, seen.images)
    rehearsal = Rehearsal(asked, plan.arms, plan.store, seen.images, None, seen.speeds, seen.made)
    unmade = {node.arm for node in plan.missing.values() if node.kind != "examine"}
    for arm in asked.arms:
        if arm.name in unmade:
            rehearsal.try_out(arm)
    return plan, rehearsal


def do_study(request: StudyRequest, out: str | os.PathLike[str] | None = None) -> Done:
    """A study from its file to its tables; `study` documents what can be asked for."""
    plan, report, folder = carry_out(request, out)
    return Done(sum_up(plan, report.tasks, folder), report, plan)


def sum_up(plan: Plan, tasks: Tasks, folder: Path) -> StudyResult:
    """Tables and page of what is there of a study; `tasks` are its jobs, and may be those of others, too."""
    notes = {plan.missing[task.node.key].arm: task.failures[-1] for task in failed(plan, tasks)}
    result = summarise(plan.study, plan.results(), plan.training(), notes).save(folder)
    write_study_page(result)
    return result


def failed(plan: Plan, tasks: Tasks) -> list[Task]:
    """Those jobs of a study that failed."""
    return [tasks[key] for key in plan.missing if key in tasks and tasks[key].state == "failed"]


def carry_out(request: StudyRequest, out: str | os.PathLike[str] | None = None) -> tuple[Plan, Report, Path]:
    """Do what is missing; what there is then, how it went, and the folder that tables and page belong into."""
    seconds = None if request.budget is None else read_budget(request.budget)
    plan, rehearsal = plan_request(request)
    folder = Path(out) if out is not None else Path("runs") / plan.study.name
    said = [*(arm.data for arm in plan.study.arms), *(look.data for look in plan.study.looks)]
    for place in (folder, request.store):
        refuse_among_images(place, *said)
    if folder.exists() and not folder.is_dir():
        raise BadArgument(f"out is '{folder}', a file; expected a folder for tables and a page")
    report = do_jobs(request, plan.study.name, packages_of(plan), lambda: costs_of(plan, rehearsal), seconds)
    return plan, report, folder


def do_jobs(
    request: StudyRequest,
    title: str,
    packages: Sequence[Sequence[Node]],
    costs_of_all: Callable[[], dict[str, Cost]],
    seconds: float | None = None,
    meanwhile: Callable[[Tasks], object] = lambda tasks: None,
) -> Report:
    """Do jobs, each once, however many packages it is in.

    Args:
        request: Who does them, and how often one that fails is tried.
        title: Of what is shown.
        packages: Jobs that belong together, the most telling first.
        costs_of_all: What they cost, by key; asked for if there is a budget.
        seconds: The budget.
        meanwhile: See `Schedule`.
    """
    nodes, costs = list(jobs_of(packages).values()), dict[str, Cost]()
    if not nodes:
        return Report({})
    with request.runner() as runner:
        if seconds is not None:
            costs = costs_of_all()
            nodes = affordable(packages, costs, seconds, runner.room)
        known = {key: cost.seconds for key, cost in costs.items() if cost.seconds is not None}
        expectations = Expectations(known)
        with Show(title, expectations, lambda: runner.room, request.progress) as shown:
            store, tell = Store(request.store), expectations.of
            return Schedule(nodes, store, runner, request.retries, seconds, tell, shown, meanwhile).run()
