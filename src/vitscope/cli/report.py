"""`vitscope report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from vitscope.cli.as_typed import notes_as_typed
from vitscope.cli.tell import tell
from vitscope.core.arguments import Address


@dataclass(frozen=True)
class Options:
    """Make one page out of runs; it is a single file that opens without a network."""

    runs: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...", help_behavior_hint="")
    ]
    """Run folders, or folders that hold some, in the order in which they are shown."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")
    """The file to write."""
    title: str | None = None
    """What stands on top; default: the names of the models."""
    docs: Address | None = None
    """Address of the documentation to link the exams' pages at."""
    verdicts: Path | None = None
    """Also write every verdict, with what it rests on, to this file: .csv, .json or .md."""


def run(options: Options) -> None:
    """Write the page and say where it is."""
    from vitscope.report import report

    with notes_as_typed("report", Options):
        path = report(options.runs, options.out, options.title, options.docs, options.verdicts)
    tell(f"wrote {path} ({path.stat().st_size / 1024:.0f} kB); open it in a browser")
