"""`vitscope survey`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from vitscope.cli.as_typed import notes_as_typed
from vitscope.cli.options import CodeOptions, JobOptions
from vitscope.cli.tell import tell
from vitscope.cli.words import epilogue, expand
from vitscope.core.arguments import BatchSize, Classes, Count, CountFromZero, Side

__all__ = ["Options", "epilogue", "expand", "run"]

_MOST = 60  # models that are printed
_COLUMNS = 6


@dataclass(frozen=True, kw_only=True)
class Options(JobOptions, CodeOptions):
    """Examine many models as they come, on the same images: one table, one page (an atlas).

    For example: `vitscope survey 'vit_*' 'convnext*' --data folder:photos --exams fourier variance --limit 500`
    """

    models: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL ...", help_behavior_hint="")
    ]
    """Names, patterns of names in quotes such as 'vit_*' (see: vitscope models), functions that make models
    (package.module:factory), or run folders."""
    data: str = "fashion"
    """Where the images come from (see: vitscope data list)."""
    exams: tuple[str, ...] = ("fourier", "variance", "attention")
    """Which exams; those by default need no labels."""
    options: tuple[str, ...] = ()
    """Options of single exams: hessian.batches=4. Shorter: --hessian.batches 4."""
    split: str = "test"
    """Which part of the data."""
    limit: Count | None = None
    """Use this many images, the same share of every class; default: all."""
    batch_size: BatchSize = 128
    """Images per forward pass."""
    pretrained: bool = True
    """Load the weights that come with a name; --no-pretrained: random ones, and the page says so."""
    img_size: Side | None = None
    """Side of the images; default: each model's own."""
    num_classes: Classes | None = None
    """Size of the heads; default: each model's own."""
    out: Path | None = None
    """Folder for tables and page; default: runs/survey/DATA."""
    retries: CountFromZero = 0
    """How often a job that failed is tried again."""
    skip_broken: bool = False
    """Pass over image files that cannot be decoded; they are named."""


def run(options: Options) -> None:
    """Examine the models, print the table, say where the page is."""
    from vitscope.engine.choose_exams import read_options
    from vitscope.report.console import wide_console
    from vitscope.studies.survey import TABLE, survey

    given: dict[str, Any] = {**vars(options), "options": read_options(options.options)}
    with notes_as_typed("survey", Options):
        result = survey(**given)
    wide = result.wide()
    wide_console().print(_table(wide))
    if more := _more(wide):
        tell(f"{more} more column{'s' if more > 1 else ''} of numbers: {result.path}/{TABLE}")
    tell(f"kept in {result.path}; open {result.page}")


def _table(wide: Any) -> Any:
    """Sizes and some numbers."""
    from rich.markup import escape
    from rich.table import Table

    from vitscope.report.atlas import heading_of, name_of, text_of

    columns = _columns(wide)
    table = Table("model", *(escape(heading_of(name)) for name in columns), box=None, pad_edge=False)
    for row in wide.to_dict("records")[:_MOST]:
        failed = isinstance(row["note"], str)
        cells = ["failed"] if failed else [escape(text_of(row, name)) for name in columns]
        table.add_row(escape(name_of(row)), *cells)
    if len(wide) > _MOST:
        table.add_row(f"and {len(wide) - _MOST} more")
    return table


def _more(wide: Any) -> int:
    """How many numbers the file has that are not printed."""
    from vitscope.report.atlas import columns_of

    return len(columns_of(wide)) - len(_columns(wide))


def _columns(wide: Any) -> list[str]:
    """Sizes, then a number of every model, and as far as there is room another one of each, in turn."""
    from vitscope.report.atlas import SIZES, columns_of

    known = columns_of(wide)
    numbers = [name for name in known if name not in SIZES]
    chosen = {name for name in known if name in SIZES}
    for turn in range(1, _COLUMNS):
        for has in wide[numbers].notna().to_dict("records"):
            own = [name for name in numbers if has[name]]
            if len(chosen.intersection(own)) < turn and (turn == 1 or len(chosen) < _COLUMNS):
                chosen.update([name for name in own if name not in chosen][:1])
    return [name for name in known if name in chosen]
