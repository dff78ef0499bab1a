"""Classification models of torchvision, as `tv:resnet50`."""

from typing import Any

import torchvision
from torch import nn

from vitscope.models.origin import set_input
from vitscope.models.sources import ModelRequest, arguments_of, call, fetching, signature_of

PREFIX = "tv:"


def names() -> list[str]:
    """Every classification model of torchvision, with the prefix."""
    return [PREFIX + name for name in torchvision.models.list_models(module=torchvision.models)]


def has(name: str) -> bool:
    """Whether the name has the prefix and torchvision has the model."""
    return name in names()


def build(request: ModelRequest) -> nn.Module:
    """`torchvision.models.get_model`; square images only where the model fixes their size (`image_size`)."""
    own_name, size = request.name.removeprefix(PREFIX), request.size
    builder = torchvision.models.get_model_builder(own_name)
    weights = torchvision.models.get_model_weights(own_name).DEFAULT

    def known() -> set[str]:
        return (arguments_of(builder(weights=None)) | signature_of(builder)) - {"**", "weights", "progress"}

    def make(**kwargs: Any) -> nn.Module:
        if not request.weights:
            return builder(weights=None, **kwargs)
        with fetching(request.name):
            return builder(weights=weights, **kwargs)

    optional = {} if size is None else {"image_size": size[0]}
    model = call(request.name, make, request.given, known, optional)
    evaluation = weights.transforms()
    crop, resize = evaluation.crop_size[0], evaluation.resize_size[0]
    # the weights may be for larger images than the model is made for
    side = getattr(model, "image_size", crop)
    set_input(
        model,
        input_size=(3, *(size or (side, side))),
        mean=tuple(evaluation.mean),
        std=tuple(evaluation.std),
        interpolation=evaluation.interpolation.value,
        crop_pct=min(1.0, crop / resize) if size is None else 1.0,
        num_classes=request.num_classes or len(weights.meta["categories"]),
    )
    return model
