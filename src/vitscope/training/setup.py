"""What a training works on: a model, training images, held-out images, the names of the classes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

import vitscope.surgery  # noqa: F401 opens run folders whose model was operated on
from vitscope.core.errors import BadData, VitscopeError
from vitscope.core.outputs import class_scores
from vitscope.data import DataConfig, ImageData, data_config, load_data
from vitscope.models import UnknownArgument, create_model, name_of
from vitscope.recipes.recipe import Recipe


@dataclass(frozen=True)
class Images:
    """Images to train on and images to look at; `held_out` is None if there are none."""

    train: Any
    held_out: Any
    classes: tuple[str, ...] | None
    name: str


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
        with torch.no_grad():
            logits = class_scores(model, model(torch.zeros(1, *config.input_size, device=device)), 1)
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
