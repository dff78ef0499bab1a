"""Models for dense tasks on any backbone: `upernet:NAME`, where NAME is what `create_model` takes, a run folder, too.

    create_model("upernet:vit_mini", num_classes=5, img_size=64)     `vit_mini` for 64 pixels, and UperNet on it
    create_model("upernet:runs/a", num_classes=5)                    on the model of a run, trained, operated on

A run folder is read once: what is written down of the model is how its backbone is made, and what was done to it.
"""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from vitscope.core.arguments import Count, check
from vitscope.core.interface import class_count
from vitscope.data import data_config
from vitscope.models.errors import CannotBuild
from vitscope.models.origin import Origin, origin, remember_random_weights, set_input, still_random
from vitscope.models.sources import ModelRequest, signature_of

HEADS = {  # file and class of each prefix
    "upernet": ("segmentation", "UperNet"),
    "unet": ("segmentation", "UNet"),
    "maskrcnn": ("detection", "MaskRCNN"),
}
_OURS = ("backbone_classes", "backbone_surgery")  # of a backbone that came from a run folder


def has(name: str) -> bool:
    """Whether the name is a dense model's."""
    return name.partition(":")[0] in HEADS and ":" in name


def backbone_of(name: str) -> str:
    """The name of the backbone in a dense model's name; other names as they are."""
    return name.partition(":")[2] if has(name) else name


def build(
    request: ModelRequest, create: Callable[..., nn.Module], redo: Callable[..., nn.Module]
) -> nn.Module:
    """The backbone by `create`, and what the task needs on it; `redo` operates on it as a record says.

    Without a number of classes it has as many as the backbone.
    """
    kind, _, inner = request.name.partition(":")
    if has(inner) or not inner:
        raise CannotBuild(f"'{request.name}' names no backbone; expected {kind}:NAME, as in {kind}:vit_mini")
    cls = _class(kind)
    decoder_arguments = {key: value for key, value in request.arguments.items() if key in signature_of(cls)}
    given = {
        key: value
        for key, value in request.arguments.items()
        if key not in decoder_arguments and key not in _OURS
    }
    backbone = create(
        inner,
        pretrained=request.pretrained,
        num_classes=request.arguments.get("backbone_classes"),
        img_size=request.img_size,
        trust_code=request.trust_code,
        **given,
    )
    all_random = still_random(backbone)
    if operations := request.arguments.get("backbone_surgery"):
        redo(backbone, operations)
    own_classes = class_count(backbone) or 1
    classes = own_classes if request.num_classes is None else check(request.num_classes, Count, "num_classes")
    prepared = data_config(backbone)
    model: nn.Module = cls(backbone, prepared.input_size, classes, **decoder_arguments)
    set_input(model, num_classes=classes, **{key: getattr(prepared, key) for key in prepared.to_dict()})
    name, again = _again(kind, inner, backbone, {**given, **decoder_arguments})
    sizes = {} if request.img_size is None else {"img_size": request.img_size}
    model.vitscope_origin = Origin(name, {**again, **sizes, "num_classes": classes})  # type: ignore[assignment]
    if all_random:
        remember_random_weights(model)
    return model


def _again(
    kind: str, inner: str, backbone: nn.Module, given: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The name and arguments that make the same model without the folder its backbone came from."""
    made, operations = origin(backbone), getattr(backbone, "vitscope_surgery", [])
    assert made is not None  # by `create`
    arguments = {key: value for key, value in made.arguments.items() if key != "num_classes"}
    more: dict[str, Any] = {"backbone_surgery": list(operations)} if operations else {}
    if Path(inner).is_dir() or "num_classes" in made.arguments:
        more["backbone_classes"] = class_count(backbone)
    return f"{kind}:{made.name}", {**arguments, **given, **more}


def _class(kind: str) -> type[nn.Module]:
    file, name = HEADS[kind]
    found: type[nn.Module] = getattr(importlib.import_module(f"vitscope.models.dense.{file}"), name)
    return found
