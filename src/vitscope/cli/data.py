"""`vitscope data list` and `vitscope data prepare NAME [--source PATH]`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from vitscope.core.errors import VitscopeError


@dataclass(frozen=True)
class Options:
    """List the data sets, or prepare one for use.

    For example: `vitscope data prepare cifar100 --source Downloads/cifar-100-python.tar.gz`
    """

    action: tyro.conf.Positional[Literal["list", "prepare"]] = "list"
    """What to do."""
    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[NAME]")] = None
    """Which data set to prepare."""
    source: Path | None = None
    """A folder or an archive that holds its files; without it, the known sources are tried in turn."""


def run(options: Options) -> None:
    """Run the verb."""
    if options.action == "prepare":
        _prepare(options)
    elif options.name is not None or options.source is not None:
        raise VitscopeError(
            "'vitscope data list' takes nothing more; did you mean: vitscope data prepare NAME?"
        )
    else:
        _list()


def _prepare(options: Options) -> None:
    from vitscope.data.prepare import prepare

    if options.name is None:
        from vitscope.data.catalog import CATALOG

        names = ", ".join(name for name, entry in CATALOG.items() if not entry.embedded)
        raise VitscopeError(f"prepare what? Type: vitscope data prepare NAME, with a NAME of {names}")
    prepare(options.name, options.source)


def _list() -> None:
    from rich.console import Console
    from rich.table import Table

    from vitscope.data.catalog import CATALOG, data_root, is_prepared

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "task", "classes", "train", "test", "where", "licence"):
        numeric = heading in ("classes", "train", "test")
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=True)
    for entry in CATALOG.values():
        where = "in the package" if entry.embedded else "prepared" if is_prepared(entry) else "not prepared"
        counts = (f"{count:,}" for count in (len(entry.classes), entry.train, entry.test))
        table.add_row(entry.name, entry.task, *counts, where, entry.licence)
    console = Console()
    Console(width=max(console.width, 100)).print(table)  # numbers are not cut on a narrow terminal
    console.print(
        f"\nprepared ones lie in {data_root()} (set VITSCOPE_DATA to move them)\n"
        "prepare one with: vitscope data prepare NAME [--source PATH]\n"
        "also: folder:PATH (one folder of images per class), frames:PATH (streams of frames), "
        "timm:PREFIX/NAME (timm's create_dataset); "
        "segmentation: masks:PATH, ade20k:PATH, camvid:PATH, camvid-frames:PATH; "
        "detection: coco:PATH; questions: vqa:PATH",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
