"""What can be said about a training, and what it works on then: a model, images, the names of the classes."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

import vitscope.surgery  # noqa: F401 opens run folders whose model was operated on
from vitscope.core.arguments import Count, Positive, check_fields, names_checked
from vitscope.core.errors import BadArgument, BadData
from vitscope.core.interface import unwrap
from vitscope.data import DataConfig, data_config
from vitscope.data.refuse_among_images import refuse_among_images
from vitscope.models import BadWeights, UnknownArgument, create_model, name_of, origin
from vitscope.models.create import check_name
from vitscope.recipes.named import get_recipe
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import seed_all
from vitscope.results.plain_files import file_name
from vitscope.tasks import Classification, Task, find_task
from vitscope.training import parallel
from vitscope.training.loading import TrainingImages, find_images, with_broken_named
from vitscope.training.log import Tracker
from vitscope.training.scored_output import settled_output


@names_checked
@dataclass(frozen=True)
class TrainOptions:
    """Options of a training: `train(model, data, epochs=1)` or `train(model, data, options=TrainOptions(epochs=1))`."""

    # what is trained, and on what
    task: str | None = None
    """What for: classification, segmentation ...; default: what the data is for."""
    held_out: Any = None
    """Images to measure on after each epoch; default: the test split of the data."""
    window: Positive | None = None
    """Segmentation: held-out pictures as windows of the model's size, in a picture whose shorter side is so many
    times it; default: the whole picture at the size of the model."""
    fraction: float = 1.0
    """Class-stratified, seeded part of the training images to use."""
    img_size: int | None = None
    """Side of the images, for a model given by name."""
    output: int | str | None = None
    """Which output holds the class scores, where model and data do not decide it; kept with the model."""
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

    measure_every: Count = 1
    """Epochs between two looks at the held-out images, which the last epoch gets in any case."""

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


@dataclass(frozen=True)
class TrainingPlan:
    """What is trained, on what, how, where, and where it is written to."""

    options: TrainOptions  # as they were given
    recipe: Recipe  # with the choices that were changed
    images: TrainingImages
    task: Task
    model: nn.Module  # on its device
    teacher: nn.Module | None
    device: torch.device  # of this process
    config: DataConfig  # how images are prepared
    classes: tuple[str, ...]  # what the outputs stand for
    folder: Path
    setting: dict[str, Any]  # what a training that goes on with this one must have in common with it
    facts: dict[str, Any]  # what the record of the run says about the model


def make_plan(
    model: str | os.PathLike[str] | nn.Module,
    data: Any,
    recipe: str | os.PathLike[str] | Recipe | None,
    out: str | os.PathLike[str] | None,
    options: TrainOptions,
) -> TrainingPlan:
    """Find everything that a training needs; refuses what does not fit together."""
    refuse_among_images("runs" if out is None else out, data)
    teacher, trusted = options.teacher, options.trust_code
    if isinstance(teacher, str | os.PathLike):
        check_name(teacher, trusted)
    seed_all(options.seed)
    overrides = {"epochs": options.epochs, "batch_size": options.batch_size, "lr": options.lr}
    unchecked = find_images(data, options.held_out, options.fraction, options.seed, options.skip_broken)
    task = find_task(options.task, unchecked.train, options.window)
    choices = get_recipe(recipe or task.recipe, **overrides | dict(options.changes or {}))
    task.check_recipe(choices)
    images = with_broken_named(unchecked, options.skip_broken)
    device = parallel.device_of_process(options.device)
    named: dict[str, Any] = (
        {} if isinstance(model, nn.Module) else task.model_arguments(model, unchecked.train)
    )
    net = find_model(model, images.classes, options.img_size, choices, trusted, task, **named).to(device)
    task.bind(net)
    config, classes = settle(net, images.classes, device, task, options.output)
    _require_batch(net, choices.batch_size, len(images.train))
    if isinstance(teacher, str | os.PathLike):
        teacher = create_model(teacher, pretrained=None, trust_code=trusted)
    folder = Path(out) if out is not None else Path("runs") / file_name(f"{name_of(net)}-{images.name}")
    if folder.exists() and not folder.is_dir():
        raise BadArgument(f"{folder} is a file; expected a folder to write the run into: --out runs/NAME")
    asked = name_of(net) if isinstance(model, nn.Module) else os.fspath(model)
    setting = _setting(asked, net, images, choices, options)
    facts = {
        "name": name_of(net),
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
        "input_size": config.input_size,
        "task": task.name,
    }
    return TrainingPlan(
        options, choices, images, task, net, teacher, device, config, classes, folder, setting, facts
    )


def _require_batch(model: nn.Module, size: int, images: int) -> None:
    """Refuse batches that a model cannot learn from; one image that is left over in an epoch is passed over anyway."""
    least: int = getattr(unwrap(model), "vitscope_least_batch", 1)
    if min(size, images) < least:
        seen = f"batch_size is {size}" if size < least else f"there is {images} image to train on"
        raise BadArgument(
            f"{seen}; {name_of(model)} needs at least {least} images in a batch, since it normalises what it has "
            "pooled to one point: give a larger --batch-size, more images, or unet:NAME in the place of upernet:NAME"
        )


def find_model(
    model: str | os.PathLike[str] | nn.Module,
    classes: Sequence[str] | None,
    img_size: int | None,
    recipe: Recipe,
    trust_code: bool = False,
    task: Task | None = None,
    **arguments: Any,
) -> nn.Module:
    """The model itself, or a new one with a head for the classes and the recipe's stochastic depth.

    `arguments` are of `create_model`, and go before what follows from classes and recipe, which a factory need not
    take: how many outputs it has is compared with the classes later.
    """
    if isinstance(model, nn.Module):
        return model
    model = model if task is None else task.model_name(model)
    n_classes = len(classes) if classes else None
    asked: dict[str, Any] = {"img_size": img_size, "trust_code": trust_code, **arguments}
    follows = {"num_classes": n_classes, "drop_path_rate": recipe.drop_path}
    try:
        while True:
            try:
                return create_model(model, **{**follows, **asked})
            except UnknownArgument as error:
                if error.argument not in follows or error.argument in arguments:
                    raise
                del follows[error.argument]
    except BadWeights as error:
        raise BadWeights(
            f"{error}; the images to train on have {n_classes or 'no known number of'} classes"
        ) from error


def settle(
    model: nn.Module,
    classes: Sequence[str] | None,
    device: torch.device,
    task: Task | None = None,
    output: int | str | None = None,
) -> tuple[DataConfig, tuple[str, ...]]:
    """The model's data configuration, and the classes its outputs stand for; refuses a head too small.

    `output` is which output that is, if the user says so; a model that has to be told is.
    """
    config = data_config(model)
    if config.said_by == "nobody":  # from now on the model knows: its images are prepared so
        config = replace(config, said_by="the model")
    with settled_output(model, output, len(classes) if classes else None, config):
        outputs = (task or Classification()).outputs(model, config, device)
    names = tuple(classes) if classes else tuple(str(i) for i in range(outputs))
    if len(names) > outputs:
        raise BadData(
            f"{name_of(model)} has {outputs} outputs for {len(names)} classes; make it with that num_classes"
        )
    return config, names + tuple(str(i) for i in range(len(names), outputs))


def _setting(
    name: str, model: nn.Module, images: TrainingImages, recipe: Recipe, options: TrainOptions
) -> dict[str, Any]:
    """What two trainings must have in common for one to go on with the other."""
    made, teacher = origin(model), options.teacher
    setting = {
        "model": name,
        "arguments": dict(made.arguments) if made else {},
        "surgery": getattr(model, "vitscope_surgery", []),
        "data": images.name,
        "images": len(images.train),
        "fraction": options.fraction,
        "seed": options.seed,
        "teacher": name_of(teacher) if isinstance(teacher, nn.Module) else teacher and os.fspath(teacher),
        "recipe": recipe.to_dict(),
    }
    if options.window is not None:
        setting["window"] = options.window
    if options.output is not None:
        setting["output"] = options.output
    return json.loads(json.dumps(setting))
