"""The constants the registry is told, against the images."""

import pytest
import timm
import torch
from timm.data import IMAGENET_DEFAULT_MEAN
from torch import nn

from vitscope.core.errors import VitscopeError
from vitscope.data import load_data
from vitscope.models.zoo import registration
from vitscope.models.zoo.registration import make_transformer


def test_constants_are_those_of_the_images() -> None:
    images = load_data("fashion", split="train").images
    assert images is not None
    scaled = torch.as_tensor(images[:]).double() / 255
    assert scaled.mean().item() == pytest.approx(registration.FASHION_MEAN, abs=2e-3)
    assert scaled.std().item() == pytest.approx(registration.FASHION_STD, abs=2e-3)


def test_class_names_are_those_of_the_data() -> None:
    assert load_data("fashion", split="test").classes == registration.FASHION_CLASSES


def test_one_overrides_the_other() -> None:
    config = registration.fashion_cfg("stem", "fc", file="here")
    assert config["input_size"] == (3, 32, 32)
    assert config["num_classes"] == 10
    assert config["file"] == "here"
    assert registration.cifar_cfg("stem", "fc")["num_classes"] == 1000
    assert registration.imagenet_cfg("stem", "fc")["input_size"] == (3, 224, 224)


@pytest.mark.parametrize("name", ["pvt_small", "localvit_tiny"])
def test_models_for_both_sizes_are_normalised_for_each(name: str) -> None:
    with torch.device("meta"):
        small, large = timm.create_model(name, img_size=32), timm.create_model(name)
        own = timm.create_model(name, img_size=32, pretrained_cfg_overlay={"mean": (0.5, 0.5, 0.5)})
    assert small.pretrained_cfg["mean"] == registration.CIFAR_MEAN
    assert small.pretrained_cfg["input_size"] == (3, 32, 32)
    assert large.pretrained_cfg["mean"] == IMAGENET_DEFAULT_MEAN
    assert own.pretrained_cfg["mean"] == (0.5, 0.5, 0.5)


def test_class_without_maps_says_so() -> None:
    with pytest.raises(VitscopeError, match=r"plain cannot be built with features_only; .*Tap"):
        make_transformer(nn.Linear, "plain", False, {"features_only": True})
