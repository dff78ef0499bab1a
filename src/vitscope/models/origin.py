"""What a model made by `create_model` remembers: how to make it again, and how to prepare images for it.

Both are plain attributes of the module: `model.vitscope_origin` and, as in timm, `model.pretrained_cfg`.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from torch import nn


@dataclass(frozen=True)
class Origin:
    """The call that made a model: `create_model(name, **arguments)`."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def origin(model: nn.Module) -> Origin | None:
    """How `create_model` made this model; None for a model that was built some other way."""
    found = getattr(model, "vitscope_origin", None)
    return found if isinstance(found, Origin) else None


def name_of(model: nn.Module) -> str:
    """The name the model was created by (else of its class), and what was done to it since."""
    made = origin(model)
    operations = [entry["operation"] for entry in getattr(model, "vitscope_surgery", [])]
    return " + ".join([made.name if made else type(model).__name__, *operations])


def set_origin(model: nn.Module, name: str, arguments: Mapping[str, Any]) -> None:
    """Let the model remember the call that made it."""
    model.vitscope_origin = Origin(name, dict(arguments))  # type: ignore[assignment]


def remember_random_weights(model: nn.Module) -> None:
    """Let the model remember the weights that it has now as random ones."""
    model.vitscope_random = _sample(model)  # type: ignore[assignment]


def still_random(model: nn.Module) -> bool:
    """Whether the model has the random weights that it was made with: nothing was trained or loaded since."""
    known = getattr(model, "vitscope_random", None)
    return isinstance(known, str) and known == _sample(model)


def _sample(model: nn.Module) -> str | None:
    """A digest of some values of every parameter; None where there are no values."""
    values = [parameter.detach().flatten()[:8] for parameter in model.parameters()]
    if not values or any(part.is_meta for part in values):
        return None
    together = torch.cat([part.cpu().double() for part in values])
    return hashlib.sha256(together.numpy().tobytes()).hexdigest()


def run_of(model: nn.Module) -> str | None:
    """The run folder that the model was read from, if it was."""
    found = getattr(model, "vitscope_run", None)
    return found if isinstance(found, str) else None


def set_input(model: nn.Module, **known: Any) -> None:
    """Complete `model.pretrained_cfg`: what is known, over what the model says, over ImageNet's constants.

    Where these stand because nobody has said mean and std, `said_by` is "nobody".
    """
    config = getattr(model, "pretrained_cfg", None) or {}
    config = dict(config) if isinstance(config, Mapping) else config.to_dict()
    told = {key: value for key, value in config.items() if value is not None}
    new = {key: value for key, value in known.items() if value is not None}
    if {"mean", "std"} <= new.keys():
        told.pop("said_by", None)
    elif not {"mean", "std"} <= told.keys() | new.keys():
        told["said_by"] = "nobody"
    usual: dict[str, Any] = {
        "input_size": (3, 224, 224),
        "mean": IMAGENET_DEFAULT_MEAN,
        "std": IMAGENET_DEFAULT_STD,
        "interpolation": "bicubic",
        "crop_pct": 0.875,
    }
    model.pretrained_cfg = {**usual, **told, **new}  # type: ignore[assignment]


def pair(img_size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    """(height, width) of an image size that may be given as one number."""
    return (img_size, img_size) if isinstance(img_size, int) else img_size
