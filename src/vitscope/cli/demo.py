"""`vitscope demo`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from vitscope.claims import Verdict

MODELS = ("resnet_mini", "vit_mini")
DATA = "fashion"


@dataclass(frozen=True)
class Options:
    """Examine a small CNN and a small vision transformer on the embedded images, and write a page about them."""

    out: Path = Path("runs/demo")
    """Folder for the two runs and the page."""
    limit: int | None = None
    """Use this many images; default: all 2,000."""
    seed: int = 0
    """Decides which images a limit takes, and the bootstrap."""


def run(options: Options) -> None:
    """Load both models, run every exam, print what was found beside what the papers expect, write the page."""
    from rich.console import Console

    from vitscope.claims import attention_verdicts, feature_verdicts
    from vitscope.data import load_data
    from vitscope.exams import diagnose
    from vitscope.models import create_model
    from vitscope.report import report
    from vitscope.report.console import notes_on_stderr, print_results

    console = Console(width=None if sys.stdout.isatty() else 140)
    data = load_data(DATA, split="test")
    count = f"{options.limit or len(data):,}"
    console.print(
        f"vitscope demo: {' and '.join(MODELS)}, both trained on Fashion-MNIST, on {count} test images"
    )
    results, verdicts, folders = {}, [], []
    with notes_on_stderr():
        for name in MODELS:
            folder = options.out / name
            model = create_model(name, pretrained=True)
            results[name] = diagnose(
                model, data, limit=options.limit, seed=options.seed, out=folder, name=name
            )
            verdicts += feature_verdicts(name, results[name]) + attention_verdicts(name, results[name])
            folders.append(folder)
    console.print()
    print_results(results, console)
    console.print()
    console.print(_verdict_table(verdicts))
    page = report(folders, options.out / "report.html", title="A small CNN and a small vision transformer")
    console.print(f"\nthe page: {page} (open it in a browser; it needs no network)")
    console.print(
        "\nnow your own model and images:\n"
        "  vitscope anatomy resnet50                                    what a model is made of\n"
        "  vitscope diagnose MODEL --data folder:PATH --out runs/mine   any timm, tv:, hf: or own model\n"
        "  vitscope report runs/mine -o mine.html                       a page like this one",
        markup=False,
        highlight=False,
    )


def _verdict_table(verdicts: "list[Verdict]") -> "Table":
    from rich.table import Table

    table = Table("claim", "the papers say", "model", "found here", "", box=None, pad_edge=False)
    colours = {"holds": "green", "does not hold": "red", "inconclusive": "yellow"}
    for v in verdicts:
        table.add_row(v.claim, v.statement, v.model, v.found, f"[{colours[v.judgement]}]{v.judgement}[/]")
    return table
