"""`vitscope study FILE.yaml`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from vitscope.cli.as_typed import notes_as_typed
from vitscope.cli.options import CodeOptions, JobOptions
from vitscope.cli.tell import tell
from vitscope.core.arguments import SeedCount
from vitscope.core.errors import VitscopeError

if TYPE_CHECKING:
    from vitscope.studies.cost import Cost
    from vitscope.studies.graph import Plan
    from vitscope.studies.run import StudyRequest


@dataclass(frozen=True, kw_only=True)
class Options(JobOptions, CodeOptions):
    """Train arms with several seeds, examine them, compare them: what a YAML file says (see docs/studies.md).

    What is done is not done again, whichever study did it; the same command goes on where it was stopped.
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.yaml")]
    """Arms, seeds, exams, comparisons and their rules."""
    out: Path | None = None
    """Folder for tables and page; default: runs/NAME."""
    dry_run: bool = False
    """Print the jobs with their cost, measured by a few steps, and do none."""
    seeds: SeedCount | None = None
    """So many seeds, instead of those of the file."""
    only: tuple[str, ...] = ()
    """Arms to do, with those that they start from; default: all."""


def run(options: Options) -> None:
    """Do the study, print what was decided, say where the rest is."""
    from vitscope.report.console import wide_console
    from vitscope.studies.run import StudyRequest, do_study

    given: dict[str, Any] = {**vars(options)}
    out, dry_run = given.pop("out"), given.pop("dry_run")
    request = StudyRequest(given.pop("file"), **given)
    with notes_as_typed("study", Options):
        if dry_run:
            _print_plan(request)
            return
        done = do_study(request, out)
        console = wide_console()
        comparisons = done.result.comparisons()
        console.print(_verdicts(comparisons))
        for row in comparisons[comparisons["value"].isna()].to_dict("records"):
            print(f"{row['name']}: {row['note']}")
        for line in done.result.missing:
            print(f"missing: {line}")
        tell(f"kept in {done.result.path}" + (f"; open {done.result.page}" if done.result.page else ""))
    left = len(done.report.of("left out"))
    if done.report.failures:
        also = f", and {left} that need them were left out" if left else ""
        failures = "; ".join(done.report.failures)
        number = len(done.report.failures)
        raise VitscopeError(
            f"{number} job{'s' if number > 1 else ''} failed{also}: {failures}; the same command tries again"
        )
    if left:
        print(f"{left} jobs did not fit into the budget; the same command goes on with them")


def _verdicts(comparisons: Any) -> Any:
    """What the study decided, as a table."""
    from rich.table import Table

    table = Table("comparison", "value", "95 % interval", "seeds", "rule", "p (Holm)", "verdict", box=None)
    for row in comparisons.to_dict("records"):
        measured = row["value"] == row["value"]
        interval = f"{row['low']:+.4g} to {row['high']:+.4g}" if row["low"] == row["low"] else ""
        p = "" if row["holm_p"] != row["holm_p"] else f"{row['holm_p']:.3g}"
        said = [
            row["name"],
            f"{row['value']:+.4g}" if measured else "not measured",
            interval,
            str(row["seeds"]),
            row["rule"],
            p,
            row["verdict"],
        ]
        table.add_row(*said)
    return table


def _print_plan(request: "StudyRequest") -> None:
    """The jobs of each arm and seed, and what they cost."""
    from vitscope.report.console import wide_console
    from vitscope.results.numbers import duration
    from vitscope.studies.cost import affordable, costs_of, packages_of, read_budget, seconds_to_start, total
    from vitscope.studies.run import plan_request
    from vitscope.training.disk import readable_size

    budget = None if request.budget is None else read_budget(request.budget)
    plan, rehearsal = plan_request(request)
    costs = costs_of(plan, rehearsal)
    wide_console().print(_jobs(plan, costs))
    seconds, disk, known = total(costs.values())
    about = "about" if known else "more than"
    print(
        f"{len(plan.missing)} jobs to do: {about} {duration(seconds)} of one worker, {readable_size(disk)} of disk"
    )
    if plan.missing and request.engine == "local":
        print(
            f"on top, before its first job, each worker takes about {duration(seconds_to_start())} to start"
        )
    if not known:
        unknown = [plan.missing[key].labels[0] for key, cost in costs.items() if cost.seconds is None]
        print(f"not counted, since they were never done here: {', '.join(dict.fromkeys(unknown))}")
    if budget is not None:
        with request.runner() as runner:
            room = runner.room
        chosen = affordable(packages_of(plan), costs, budget, room)
        print(f"into {request.budget} with {room} at once fit {len(chosen)}:")
        for node in chosen:
            print(f"  {node.title}")


def _jobs(plan: "Plan", costs: "dict[str, Cost]") -> Any:
    from rich.table import Table

    from vitscope.results.numbers import duration
    from vitscope.studies.cost import total
    from vitscope.training.disk import readable_size

    table = Table("arm", "seed", "model", "exams", "time", "disk", "known from", box=None, pad_edge=False)
    for arm in plan.study.arms:
        for seed in arm.seeds:
            nodes = [node for node in plan.missing.values() if (node.arm, node.seed) == (arm.name, seed)]
            made = next((node.kind for node in nodes if node.kind != "examine"), None)
            looks = {
                one.label: plan.looks[arm.name, seed, one.label] for one in plan.study.looks_at(arm.name)
            }
            labels = [label for label, look in looks.items() if not plan.store.has_result(*look)]
            exams = f"{len(looks) - len(labels)} of {len(looks)} done"
            exams += f", missing: {', '.join(labels)}" if labels else ""
            node_costs = [costs[node.key] for node in nodes]
            seconds, disk, known = total(node_costs)
            time = ("" if known else "> ") + duration(seconds) if node_costs else ""
            basis = ", ".join(dict.fromkeys(cost.basis for cost in node_costs))
            model = {"train": "to train", "operate": "to operate on"}.get(
                made or "", "there" if labels else "done"
            )
            table.add_row(
                arm.name, str(seed), model, exams, time, readable_size(disk) if node_costs else "", basis
            )
    return table
