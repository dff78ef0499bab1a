"""`vitscope train`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Options:
    """Train a model and leave it in a run folder."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A name (see: vitscope models), or a run folder to train further."""
    data: str = "fashion"
    """Where the images come from (see: vitscope data list)."""
    recipe: str = "mini"
    """A named recipe: mini or hdv."""
    out: Path | None = None
    """The run folder; default runs/MODEL-DATA."""
    resume: bool = False
    """Go on with the training that is in the run folder."""
    epochs: int | None = None
    """Instead of the recipe's."""
    batch_size: int | None = None
    """Instead of the recipe's."""
    lr: float | None = None
    """Learning rate, instead of the recipe's."""
    fraction: float = 1.0
    """Part of the training images to use, the same of every class."""
    img_size: int | None = None
    """Side of the images, if the model should not have its own."""
    seed: int = 0
    """Decides everything that is random."""
    device: str | None = None
    """cpu, cuda, cuda:1 ...; default: a GPU if there is one."""
    workers: int = 0
    """Processes that load and augment images."""


def run(options: Options) -> None:
    """Train, then say what came out and what to do with it."""
    from vitscope.training import train

    done = train(**vars(options))
    print(
        f"{options.model}: accuracy {done.accuracy:.2%} (95 % interval {done.low:.2%} to {done.high:.2%}) "
        f"after {done.epochs} epochs, {done.seconds / 60:.1f} min, {done.images_per_second:.0f} images/s\n"
        f"kept in {done.path}; see: vitscope diagnose {done.path} --data {options.data}"
    )
