"""What timm's registry is told about the models of this package: image size, normalisation, where the ends are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD

from vitscope.data.catalog import CATALOG
from vitscope.models.origin import pair

WEIGHTS = Path(__file__).parent / "weights"  # a folder per model that comes with weights

SMALL = 64  # pixels: the largest side of what counts as a small image
# mean and standard deviation of the training images of CIFAR-100
CIFAR_MEAN = (0.5071, 0.4867, 0.4408)
CIFAR_STD = (0.2675, 0.2565, 0.2761)
# of the 32x32 training images of Fashion-MNIST (grey: the same for the three channels)
FASHION_MEAN = 0.2190
FASHION_STD = 0.3318
FASHION_CLASSES = CATALOG["fashion"].classes


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
    own = {
        "num_classes": len(FASHION_CLASSES),
        "mean": (FASHION_MEAN,) * 3,
        "std": (FASHION_STD,) * 3,
        "label_names": FASHION_CLASSES,
    }
    return {**cifar_cfg(first_conv, classifier), **own, **more}


def small_image_constants(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a model for 224 pixels, with CIFAR's normalisation if they say that its images are small."""
    size = pair(arguments.get("img_size"))
    if size is None or max(size) > SMALL:
        return dict(arguments)
    overlay = {
        "input_size": (arguments.get("in_chans", 3), *size),
        "mean": CIFAR_MEAN,
        "std": CIFAR_STD,
        "crop_pct": 1.0,
        **(arguments.get("pretrained_cfg_overlay") or {}),
    }
    return {**arguments, "pretrained_cfg_overlay": overlay}
