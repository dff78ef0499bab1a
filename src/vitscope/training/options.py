"""What can be said about a training besides its model, data, recipe and run folder."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vitscope.core.arguments import Count, check_fields, names_checked
from vitscope.training.tracking import Tracker


@names_checked
@dataclass(frozen=True)
class TrainOptions:
    """Options of a training: `train(model, data, epochs=1)` or `train(model, data, options=TrainOptions(epochs=1))`."""

    # what is trained, and on what
    held_out: Any = None
    """Images to measure on after each epoch; default: the test split of the data."""
    fraction: float = 1.0
    """Class-stratified, seeded part of the training images to use."""
    img_size: int | None = None
    """Side of the images, for a model given by name."""
    epochs: int | None = None
    """Instead of the recipe's."""
    batch_size: int | None = None
    """Instead of the recipe's; images per step over all processes."""
    lr: float | None = None
    """Instead of the recipe's."""
    changes: Mapping[str, Any] | None = None
    """Any other choices instead of the recipe's, by the names of its fields."""
    teacher: str | os.PathLike[str] | nn.Module | None = None
    """What a recipe that distils learns from: a model, a run folder, or a name with weights."""
    seed: int = 0
    """Decides the weights at the start, the order of the images, every augmentation."""
    skip_broken: bool = False
    """Count and pass over images that cannot be read, instead of stopping."""
    trust_code: bool = False
    """Run code that a run folder or a model of Hugging Face names (see `create_model`)."""

    # saving and resuming
    resume: bool = False
    """Go on with what is in the run folder; starts from the beginning if nothing is there yet."""
    force: bool = False
    """Go on even if choices are different; an epoch that was under way is begun anew."""
    save_every: Count | None = None
    """Steps between two writings of the state, which is also written after every epoch."""
    checkpoint_every: Count | None = None
    """Epochs between two checkpoints to keep besides init, warmup, best and last."""

    # the machine
    device: str | torch.device | None = None
    """Default: CUDA if there is any, else the CPU."""
    workers: int | None = None
    """Processes that load and augment images; default: one for each core but one, none for a few images. The result
    does not depend on it."""
    shard: bool = False
    """Spread the model over the processes (FSDP) instead of giving each a copy (DDP)."""
    sync_bn: bool = False
    """Batch statistics over all processes."""
    timeout_minutes: float = 30.0
    """How long to wait for a process that does not answer."""

    # watching
    track: Tracker | None = None
    """Also send the rows of `metrics.csv` to a tracker."""
    monitor: Sequence[str] = ()
    """Exams that share one pass, and "hessian", to look at the model with while it trains."""
    monitor_every: Count | None = None
    """Epochs between two looks; default: as often as 5 % of the time allow."""
    progress: bool = True
    """Show the recipe and a bar on stderr."""

    def __post_init__(self) -> None:
        check_fields(self)
