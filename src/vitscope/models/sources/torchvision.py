"""Classification models of torchvision, as `tv:resnet50`."""

from typing import Any

import torchvision
from torch import nn

from vitscope.models.constructor_arguments import arguments_of, call, signature_of
from vitscope.models.origin import pair, set_input
from vitscope.models.zoo.network import fetching

PREFIX = "tv:"


def names() -> list[str]:
    """Every classification model of torchvision, with the prefix."""
    return [PREFIX + name for name in torchvision.models.list_models(module=torchvision.models)]


def has(name: str) -> bool:
    """Whether the name has the prefix and torchvision has the model."""
    return name in names()


def build(
    name: str,
    pretrained: bool,
    num_classes: int | None,
    img_size: int | tuple[int, int] | None,
    arguments: dict[str, Any],
) -> nn.Module:
    """`torchvision.models.get_model`; square images only where the model fixes their size (`image_size`)."""
    own_name = name.removeprefix(PREFIX)
    builder = torchvision.models.get_model_builder(own_name)
    weights = torchvision.models.get_model_weights(own_name).DEFAULT

    def known() -> set[str]:
        return (arguments_of(builder(weights=None)) | signature_of(builder)) - {"**", "weights", "progress"}

    def make(**kwargs: Any) -> nn.Module:
        if not pretrained:
            return builder(weights=None, **kwargs)
        with fetching(name):
            return builder(weights=weights, **kwargs)

    size = pair(img_size)
    given = dict(arguments) if num_classes is None else {**arguments, "num_classes": num_classes}
    model = call(name, make, given, known, optional={} if size is None else {"image_size": size[0]})
    eval_transform = weights.transforms()
    crop, resize = eval_transform.crop_size[0], eval_transform.resize_size[0]
    side = getattr(
        model, "image_size", crop
    )  # the weights may be for larger images than the model is made for
    set_input(
        model,
        input_size=(3, *(size or (side, side))),
        mean=tuple(eval_transform.mean),
        std=tuple(eval_transform.std),
        interpolation=eval_transform.interpolation.value,
        crop_pct=min(1.0, crop / resize) if size is None else 1.0,
        num_classes=num_classes or len(weights.meta["categories"]),
    )
    return model
