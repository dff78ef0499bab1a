"""`vitscope compare`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from vitscope.cli.as_typed import notes_as_typed
from vitscope.cli.options import ImageOptions
from vitscope.cli.tell import tell
from vitscope.core.arguments import Address


@dataclass(frozen=True, kw_only=True)
class Options(ImageOptions):
    """Put two models on one page, side by side and image by image.

    For example: `vitscope compare resnet_mini vit_mini` or `vitscope compare runs/before runs/after`
    """

    first: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|MODEL")]
    """An examined run folder, a name (see: vitscope models), or a function that makes a model
    (package.module:factory)."""
    second: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|MODEL")]
    """The same; differences are of this one minus the first."""
    data: str | None = None
    """Images to examine names on; default: those of the run beside it, or fashion."""
    exams: tuple[str, ...] = ()
    """Which exams; default: those of the run beside it, or those that share one pass; all: every one but the slow."""
    out: Path | None = None
    """Folder for the runs that have to be made, and for the page; default: runs/compare/DATA/FIRST-SECOND."""
    page: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The file to write; default: report.html in that folder."""
    title: str | None = None
    """What stands on top; default: the names of the models."""
    docs: Address | None = None
    """Address of the documentation to link the exams' pages at."""


def run(options: Options) -> None:
    """Examine what has to be examined, write the page, print the verdicts and where the page is."""
    from vitscope.core import distributed
    from vitscope.core.interface import Interface
    from vitscope.report import report
    from vitscope.report.console import print_verdicts, wide_console
    from vitscope.report.subject import find_runs
    from vitscope.report.verdicts import all_verdicts
    from vitscope.results.plain_files import check_page
    from vitscope.studies.compare import PairRequest, examined_runs, folder_of_pair

    models = (options.first, options.second)
    out = options.out or folder_of_pair(*models, options.data, options.split)
    page = options.page or out / "report.html"
    check_page(page)
    with distributed.process_group(options.timeout_minutes), notes_as_typed("compare", Options):
        names = ("data", "split", "limit", "batch_size", "seed", "device", "skip_broken")
        request = PairRequest(
            exams=list(options.exams) or None,
            interface=Interface().merged(options.output, options.mean, options.std),
            creation=options.of_models(),
            **{name: getattr(options, name) for name in names},
        )
        runs = examined_runs(*models, request, out)
        if distributed.is_main():
            path = report(runs, page, options.title, options.docs)
            print_verdicts(all_verdicts(find_runs(runs)), wide_console())
            tell(f"wrote {path} ({path.stat().st_size / 1024:.0f} kB); open it in a browser")
