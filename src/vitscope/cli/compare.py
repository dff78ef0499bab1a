"""`vitscope compare`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Options:
    """Put two models on one page, side by side and image by image.

    For example: `vitscope compare resnet_mini vit_mini` or `vitscope compare runs/before runs/after`
    """

    first: Annotated[str, tyro.conf.Positional]
    """An examined run folder, or a name (see: vitscope models)."""
    second: Annotated[str, tyro.conf.Positional]
    """The same; differences are of this one minus the first."""
    data: str | None = None
    """Images to examine names on; default: those of the run beside it, or fashion."""
    split: str = "test"
    """Which part of the data."""
    exams: tuple[str, ...] = ()
    """Which exams; default: those of the run beside it, or those that share one pass; all: every one but the slow."""
    limit: int | None = None
    """Use this many images, the same share of every class; default: all."""
    batch_size: int = 128
    """Images per forward pass."""
    seed: int = 0
    """Decides which images a limit takes, and the bootstrap."""
    device: str | None = None
    """cpu, cuda, cuda:1 ...; default: a GPU if there is one."""
    out: Path = Path("runs/compare")
    """Folder for the runs that have to be made, and for the page."""
    page: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The file to write; default: report.html in that folder."""
    title: str | None = None
    """What stands on top; default: the names of the models."""
    docs: str | None = None
    """Address of the documentation to link the exams' pages at."""
    output: int | str | None = None
    """Which output holds the class scores, where that cannot be decided: a name such as logits, or a place from 0."""
    mean: tuple[float, ...] | None = None
    """What was subtracted from pixels from 0 to 1, per channel, if the model should not say so itself."""
    std: tuple[float, ...] | None = None
    """What they were divided by, per channel."""


def run(options: Options) -> None:
    """Examine what has to be examined, write the page, say where it is."""
    import dataclasses

    from vitscope import distributed
    from vitscope.report.compare import compare
    from vitscope.report.console import notes_on_stderr

    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    with distributed.process_group(), notes_on_stderr():
        path = compare(**{**given, "exams": list(options.exams) or None})
        if distributed.is_main():
            print(f"wrote {path} ({path.stat().st_size / 1024:.0f} kB); open it in a browser")
