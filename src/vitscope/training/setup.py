"""What a training works on: a model, training images, held-out images, the names of the classes."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

import vitscope.surgery  # noqa: F401 opens run folders whose model was operated on
from vitscope.anatomy.watch.example import runs_on
from vitscope.core import distributed
from vitscope.core.errors import BadArgument, BadData, VitscopeError
from vitscope.core.outputs import class_scores
from vitscope.data import DataConfig, ImageData, data_config, load_data
from vitscope.models import UnknownArgument, create_model, name_of, origin
from vitscope.models.create import check_name
from vitscope.recipes.named import get_recipe
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import seed_all
from vitscope.training import parallel
from vitscope.training.broken_images import Readable, few, without_broken
from vitscope.training.options import TrainOptions


@dataclass(frozen=True)
class Images:
    """Images to train on and images to look at; `held_out` is None if there are none.

    Attributes:
        not_held_out: Names of those that are broken, and left out.
    """

    train: Any
    held_out: Any
    classes: tuple[str, ...] | None
    name: str
    not_held_out: Sequence[str] = ()


@dataclass(frozen=True)
class Plan:
    """What is trained, on what, how, where, and where it is written to.

    Attributes:
        options: As they were given.
        recipe: With the choices that were changed.
        images: Readable ones.
        model: On its device.
        teacher: What it learns from besides the labels.
        device: Of this process.
        config: How images are prepared.
        classes: What the outputs stand for.
        folder: The run folder.
        setting: What a training that goes on with this one must have in common with it.
        facts: What the record of the run says about the model.
    """

    options: TrainOptions
    recipe: Recipe
    images: Images
    model: nn.Module
    teacher: nn.Module | None
    device: torch.device
    config: DataConfig
    classes: tuple[str, ...]
    folder: Path
    setting: dict[str, Any]
    facts: dict[str, Any]


def make_plan(
    model: str | os.PathLike[str] | nn.Module,
    data: Any,
    recipe: str | os.PathLike[str] | Recipe,
    out: str | os.PathLike[str] | None,
    options: TrainOptions,
) -> Plan:
    """Find everything that a training needs; refuses what does not fit together."""
    teacher, trusted = options.teacher, options.trust_code
    if isinstance(teacher, str | os.PathLike):
        check_name(teacher, trusted)
    seed_all(options.seed)
    own = {"epochs": options.epochs, "batch_size": options.batch_size, "lr": options.lr}
    choices = get_recipe(recipe, **own | dict(options.changes or {}))
    found = find_images(data, options.held_out, options.fraction, options.seed, options.skip_broken)
    images = readable(found, options.skip_broken)
    device = parallel.device_of_process(options.device)
    net = find_model(model, images.classes, options.img_size, choices, trusted).to(device)
    config, classes = settle(net, images.classes, device)
    if isinstance(teacher, str | os.PathLike):
        teacher = create_model(teacher, pretrained=None, trust_code=trusted)
    folder = Path(out) if out is not None else Path("runs") / _file_name(f"{name_of(net)}-{images.name}")
    if folder.exists() and not folder.is_dir():
        raise BadArgument(f"{folder} is a file; expected a folder to write the run into: --out runs/NAME")
    asked = name_of(net) if isinstance(model, nn.Module) else os.fspath(model)
    setting = _setting(asked, net, images, choices, options)
    facts = {
        "name": name_of(net),
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
        "input_size": config.input_size,
    }
    return Plan(options, choices, images, net, teacher, device, config, classes, folder, setting, facts)


def find_images(data: Any, held_out: Any, fraction: float, seed: int, skip_broken: bool = False) -> Images:
    """Images from a spec ("fashion"), from what `load_data` gave, or from any data set of (picture, label).

    Of a spec, and of `load_data`'s training split, the test split is held out unless `held_out` is given.
    Where broken images are passed over, empty files and links that lead nowhere are such images.
    """
    if isinstance(data, str | Path):
        data = load_data(str(data), split="train", fraction=fraction, seed=seed, check=not skip_broken)
        fraction = 1.0
    if isinstance(data, ImageData):
        if held_out is None and data.split == "train":
            held_out = load_data(data.spec, split="test", check=not skip_broken)
        return Images(data.fraction(fraction, seed), held_out, data.classes, data.spec)
    if fraction != 1.0:
        raise VitscopeError(
            f"fraction={fraction} needs data by name; take a part of the data set yourself (torch's Subset)"
        )
    if not hasattr(data, "__len__") or len(data) == 0:
        raise BadData(
            f"cannot train on this {type(data).__name__}: expected a data set of (picture, label), not empty"
        )
    classes = getattr(data, "classes", None)
    return Images(data, held_out, tuple(map(str, classes)) if classes else None, type(data).__name__)


def readable(images: Images, skip_broken: bool) -> Images:
    """The images, of which the broken ones are named, or passed over."""
    held_out: Any = images.held_out
    names: list[str] = []
    if skip_broken and isinstance(held_out, ImageData):
        held_out, names = without_broken(held_out)
        if names and distributed.is_main():
            print(f"vitscope: {len(names)} held-out images are broken: {few(names)}", file=sys.stderr)
    train = Readable(images.train, skip_broken)
    return replace(images, train=train, held_out=held_out, not_held_out=names)


def find_model(
    model: str | os.PathLike[str] | nn.Module,
    classes: Sequence[str] | None,
    img_size: int | None,
    recipe: Recipe,
    trust_code: bool = False,
) -> nn.Module:
    """The model itself, or a new one with a head for the classes and the recipe's stochastic depth."""
    if isinstance(model, nn.Module):
        return model
    n_classes = len(classes) if classes else None
    asked: dict[str, Any] = {"num_classes": n_classes, "img_size": img_size, "trust_code": trust_code}
    try:
        return create_model(model, drop_path_rate=recipe.drop_path, **asked)
    except UnknownArgument as error:
        if error.argument != "drop_path_rate":
            raise
        return create_model(model, **asked)


def count_outputs(model: nn.Module, config: DataConfig, device: torch.device) -> int:
    """Width of the model's output for one image of the configured size."""
    training = model.training
    model.eval()
    try:
        images = torch.zeros(1, *config.input_size, device=device)
        with torch.no_grad(), runs_on(model, images):
            outputs = model(images)
        logits = class_scores(model, outputs, 1)
    finally:
        model.train(training)
    if logits.ndim != 2:
        raise VitscopeError(
            f"{name_of(model)} returns {tuple(logits.shape)} for one image; training expects logits of shape "
            "(1, classes)"
        )
    return logits.shape[1]


def settle(
    model: nn.Module, classes: Sequence[str] | None, device: torch.device
) -> tuple[DataConfig, tuple[str, ...]]:
    """The model's data configuration, and the classes its outputs stand for; refuses a head too small."""
    config = data_config(model)
    if config.said_by == "nobody":  # from now on the model knows: its images are prepared so
        config = replace(config, said_by="the model")
    outputs = count_outputs(model, config, device)
    names = tuple(classes) if classes else tuple(str(i) for i in range(outputs))
    if len(names) > outputs:
        raise BadData(
            f"{name_of(model)} has {outputs} outputs for {len(names)} classes; make it with that num_classes"
        )
    return config, names + tuple(str(i) for i in range(len(names), outputs))


def _setting(
    name: str,
    model: nn.Module,
    images: Images,
    recipe: Recipe,
    options: TrainOptions,
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
    return json.loads(json.dumps(setting))


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-._" else "_" for c in text)
