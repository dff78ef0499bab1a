"""`vitscope demo`."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitscope.cli.as_typed import notes_as_typed
from vitscope.core.arguments import Count, Seed

if TYPE_CHECKING:
    from vitscope.results import Result

MODELS = ("resnet_mini", "vit_mini", "alternet_mini")
DATA = "fashion"
# Images per exam: enough to see what it is about, few enough for minutes on a laptop.
LIMITS = {"diagnosis": 300, "passes": 100, "evaluation": 60, "costly": 32}
MANY_PASSES = ("lesion", "uncertainty")  # of a diagnosis
OPTIONS = {"landscape": {"points": 13}}


@dataclass(frozen=True)
class Options:
    """Examine a small CNN, a small vision transformer and a small AlterNet on the embedded images; write a page."""

    out: Path = Path("runs/demo")
    """Folder for the runs and the page."""
    limit: Count | None = None
    """Use at most this many images per exam; default: a few hundred, fewer for exams that take many passes."""
    exams: tuple[str, ...] = ()
    """Only these exams; default: every one that is about pictures."""
    figures: bool = False
    """Also write every figure of the page as a PNG and an SVG file, which takes a minute more."""
    seed: Seed = 0
    """Decides which images are taken, and the bootstrap."""


def run(options: Options) -> None:
    """Load the models, run every exam, print what was found beside what the papers expect, write the page."""
    from vitscope import create_model
    from vitscope.data import load_data
    from vitscope.drawing.figures import save_figures
    from vitscope.engine.choose_exams import NothingToShow, find_exams, with_options
    from vitscope.engine.diagnose import run_exams
    from vitscope.engine.takes_interface import Request
    from vitscope.report import report
    from vitscope.report.console import print_results, print_verdicts, wide_console
    from vitscope.report.subject import find_runs
    from vitscope.report.verdicts import all_verdicts
    from vitscope.results.plain_files import check_page

    page = options.out / "report.html"
    check_page(page)
    console = wide_console()
    data = load_data(DATA, split="test")
    plan = _plan(options, data)
    count = sum(len(exams) for exams, _ in plan)
    console.print(
        f"vitscope demo: {', '.join(MODELS)}, trained on Fashion-MNIST, on its test images; {count} exams each"
    )
    results: dict[str, dict[str, Result]] = {}
    with notes_as_typed("demo", Options), warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingToShow)  # nobody has asked for it
        for name in MODELS:
            model = create_model(name, pretrained=True)
            results[name] = {}
            for exams, limit in plan:
                said = {exam: own for exam, own in OPTIONS.items() if exam in exams}
                chosen = with_options(find_exams(exams), said)
                request = Request(limit, seed=options.seed, name=name)
                found = run_exams(model, data, chosen, request, options.out / name, figures=False)
                results[name].update(found)
            if options.figures:
                for result in results[name].values():
                    save_figures(result, options.out / name / "figures")
    console.print()
    print_results(results, console)
    console.print()
    folders = [options.out / name for name in MODELS]
    print_verdicts(all_verdicts(find_runs(folders)), console)
    report(folders, page, title="A CNN, a vision transformer and an AlterNet")
    console.print(f"\nthe page: {page} (open it in a browser; it needs no network)")
    console.print(
        "\nnow your own model and images:\n"
        "  vitscope anatomy resnet50                                    what a model is made of\n"
        "  vitscope diagnose MODEL --data folder:PATH --out runs/mine   any timm, tv:, hf: or own model\n"
        "  vitscope report runs/mine -o mine.html                       a page like this one",
        markup=False,
        highlight=False,
    )


def _plan(options: Options, data: Any) -> list[tuple[list[str], int]]:
    """Exams that are run together, and on how many images."""
    from vitscope.engine.choose_exams import lacks_frames, lacks_task
    from vitscope.exams import EXAMS, Procedure

    groups: dict[str, list[str]] = {group: [] for group in LIMITS}
    for name, exam in EXAMS.items():
        group = "passes" if name in MANY_PASSES else "diagnosis"
        if isinstance(exam, Procedure):
            group = "costly" if exam.costly else "evaluation" if exam.evaluation else group
        if name in options.exams or not (options.exams or lacks_frames(exam, data) or lacks_task(exam, data)):
            groups[group].append(name)
    most = options.limit or max(LIMITS.values())
    return [(names, min(most, LIMITS[group])) for group, names in groups.items() if names]
