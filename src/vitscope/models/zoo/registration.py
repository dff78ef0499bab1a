"""How our models get into timm's registry: what it is told of each (image size, normalisation, where the ends are), and
the function that builds it."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.layers import to_2tuple
from timm.models import build_model_with_cfg, register_model
from torch import nn

from vitscope.core.errors import VitscopeError
from vitscope.data.catalog import CATALOG

WEIGHTS = Path(__file__).parents[1] / "weights"  # a folder per model that comes with weights

SMALL = 64  # pixels: the largest side of what counts as a small image
# mean and standard deviation of the training images of CIFAR-100
CIFAR_MEAN = (0.5071, 0.4867, 0.4408)
CIFAR_STD = (0.2675, 0.2565, 0.2761)
# of the 32x32 training images of Fashion-MNIST (grey: the same for the three channels)
FASHION_MEAN = 0.2190
FASHION_STD = 0.3318
FASHION_CLASSES = CATALOG["fashion"].classes


def is_small(img_size: int | tuple[int, int]) -> bool:
    """Whether images of this side or (height, width) count as small."""
    return max(to_2tuple(img_size)) <= SMALL


def imagenet_cfg(first_conv: str, classifier: str, **more: Any) -> dict[str, Any]:
    """224 pixels, 1000 classes, without weights."""
    return {
        "input_size": (3, 224, 224),
        "num_classes": 1000,
        "mean": IMAGENET_DEFAULT_MEAN,
        "std": IMAGENET_DEFAULT_STD,
        "interpolation": "bicubic",
        "crop_pct": 0.9,
        "first_conv": first_conv,
        "classifier": classifier,
        "license": "apache-2.0",
        **more,
    }


def cifar_cfg(first_conv: str, classifier: str, **more: Any) -> dict[str, Any]:
    """32 pixels, 1000 classes unless told otherwise, as timm has it; without weights."""
    small = {"input_size": (3, 32, 32), "mean": CIFAR_MEAN, "std": CIFAR_STD, "crop_pct": 1.0}
    return {**imagenet_cfg(first_conv, classifier), **small, **more}


def fashion_cfg(first_conv: str, classifier: str, **more: Any) -> dict[str, Any]:
    """32 pixels and the ten classes of Fashion-MNIST."""
    own = {"mean": (FASHION_MEAN,) * 3, "std": (FASHION_STD,) * 3}
    classes = {"num_classes": len(FASHION_CLASSES), "label_names": FASHION_CLASSES}
    return {**cifar_cfg(first_conv, classifier), **own, **classes, **more}


def weight_file(name: str) -> str:
    """The weights of a model that comes with some."""
    return str(WEIGHTS / name / "model.safetensors")


def small_image_constants(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a model for 224 pixels, with CIFAR's normalisation if they say that its images are small."""
    size = arguments.get("img_size")
    if size is None or not is_small(size):
        return dict(arguments)
    constants = {"mean": CIFAR_MEAN, "std": CIFAR_STD, "crop_pct": 1.0}
    given = arguments.get("pretrained_cfg_overlay") or {}
    overlay = {"input_size": (arguments.get("in_chans", 3), *to_2tuple(size)), **constants, **given}
    return {**arguments, "pretrained_cfg_overlay": overlay}


def make_transformer(
    cls: type[nn.Module], name: str, pretrained: bool, arguments: dict[str, Any], **more: Any
) -> nn.Module:
    """timm's builder; `features_only` takes the maps by the class's own `forward_intermediates`."""
    if arguments.get("features_only") and not hasattr(cls, "forward_intermediates"):
        raise VitscopeError(f"{name} cannot be built with features_only; take its maps with vitscope.Tap")
    features = {"feature_cls": "getter", "out_indices": 3}
    return build_model_with_cfg(cls, name, pretrained, feature_cfg=features, **more, **arguments)


def register(module: str, name: str, build: Callable[[bool, dict[str, Any]], nn.Module]) -> None:
    """Let timm make a model by `build(pretrained, arguments)`; `default_cfgs` of the module say the rest about it."""

    def entry(pretrained: bool = False, **kwargs: Any) -> nn.Module:
        return build(pretrained, kwargs)

    entry.__name__ = entry.__qualname__ = name
    entry.__module__ = module
    setattr(sys.modules[module], name, register_model(entry))
