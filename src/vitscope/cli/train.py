"""`vitscope train`."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import tyro

from vitscope.cli.as_typed import notes_as_typed
from vitscope.cli.options import CodeOptions
from vitscope.cli.tell import tell
from vitscope.core.arguments import (
    BatchSize,
    Count,
    Decay,
    Device,
    Epochs,
    Fraction,
    LearningRate,
    Minutes,
    Positive,
    Seed,
    Side,
    Workers,
)

_CHANGES = ("accumulate", "sam_rho", "ema_decay", "clip_norm", "compile")


@dataclass(frozen=True)
class Options(CodeOptions):
    """Train a model and leave it in a run folder."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A name (see: vitscope models), a function that makes it (package.module:factory), or a run folder to train
    further."""
    data: str = "fashion"
    """Where the images come from (see: vitscope data list)."""
    task: str | None = None
    """What for: classification, segmentation, detection, vqa; default: what the data is for."""
    recipe: str | None = None
    """A named recipe (mini, hdv, hdv-imagenet, weak, deit, deit-distill, cnn; for other tasks dense, ade20k, coco,
    vqa-mini, vqa), or a YAML file; default: mini, dense, vqa-mini."""
    out: Path | None = None
    """The run folder; default runs/MODEL-DATA."""
    resume: bool = False
    """Go on with the training that is in the run folder."""
    force: bool = False
    """Go on even if other choices are given now."""
    save_every: Count | None = None
    """Steps after which the state is written, besides after every epoch."""
    checkpoint_every: Count | None = None
    """Epochs after which a checkpoint is kept, besides init, warmup, best and last."""
    measure_every: Count = 1
    """Epochs after which the held-out images are looked at."""
    epochs: Epochs | None = None
    """Instead of the recipe's."""
    batch_size: BatchSize | None = None
    """Images per step over all processes, instead of the recipe's."""
    lr: LearningRate | None = None
    """Learning rate, instead of the recipe's."""
    accumulate: Count | None = None
    """Parts that a process cuts its share of a batch into, to save memory."""
    sam_rho: Positive | None = None
    """Sharpness-aware minimisation with this radius."""
    ema_decay: Decay | None = None
    """Measure and keep a moving average of the weights with this decay."""
    clip_norm: Positive | None = None
    """Largest norm of the gradient."""
    compile: bool | None = None
    """Put the model through torch.compile."""
    teacher: str | None = None
    """Run folder or model's name that deit-distill learns from."""
    window: Positive | None = None
    """Segmentation: measure held-out pictures by windows as large as the model's images, in pictures whose shorter side
    is so many times that (1: as is usual for ADE20K); default: whole pictures at the model's size."""
    fraction: Fraction = 1.0
    """Part of the training images to use, the same of every class."""
    img_size: Side | None = None
    """Side of the images, if the model should not have its own."""
    output: int | str | None = None
    """Which output holds the class scores, where model and data do not decide it: a name such as logits, or a place
    from 0; kept with the model."""
    seed: Seed = 0
    """Decides everything that is random."""
    device: Device | None = None
    """cpu, cuda, cuda:1 ...; default: a GPU if there is one (under torchrun: one for each process)."""
    workers: Workers | None = None
    """Processes that load and augment images; default: one for each core but one, none for a few images."""
    skip_broken: bool = False
    """Count and pass over images that cannot be read."""
    shard: bool = False
    """Spread the model over the processes of torchrun (FSDP) instead of copying it to each."""
    sync_bn: bool = False
    """Batch normalisation over all processes of torchrun."""
    timeout_minutes: Minutes = 30.0
    """How long the processes of torchrun wait for one that does not answer."""
    track: Literal["tensorboard", "wandb", "trackio"] | None = None
    """Also send the training curves to a tracker."""
    monitor: tuple[str, ...] = ()
    """Exams that share one pass, and hessian, to look at the model with while it trains; into monitors.csv."""
    monitor_every: Count | None = None
    """Epochs between two looks; default: as often as 5 % of the time allow."""


def run(options: Options) -> None:
    """Train, then say what came out and what to do with it."""
    from vitscope.core import distributed
    from vitscope.core.interrupt import Interruptible
    from vitscope.data.folder import without_splits
    from vitscope.data.images import HELD_OUT
    from vitscope.models.trust import names_code
    from vitscope.training import train
    from vitscope.training.parallel import errors_said_once

    values: dict[str, Any] = dict(vars(options))
    changes = {name: values.pop(name) for name in _CHANGES}
    with distributed.process_group(options.timeout_minutes), notes_as_typed("train", Options):
        if not distributed.is_active():
            done = train(**values, changes=changes)
        else:
            with Interruptible(patient=True), errors_said_once():
                done = train(**values, changes=changes)
        if not distributed.is_main():
            return
    more = f" --split {HELD_OUT}" if without_splits(options.data) else ""
    more += " --skip-broken" if options.skip_broken else ""
    more += " --trust-code" if options.trust_code or names_code(options.model) else ""
    measured = f"{done.words} on {done.held_out} held-out images"
    tell(
        f"{options.model}: {measured if done.words else 'not measured, for want of held-out images,'} "
        f"after {done.epochs} epoch{'s' if done.epochs != 1 else ''}, {done.seconds / 60:.1f} min, "
        f"{done.images_per_second:.0f} images/s",
        f"kept in {done.path}",
        f"examine it: vitscope diagnose {done.path} --data {quote(options.data)}{more}",
    )
