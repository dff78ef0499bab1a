import json

import pytest
import timm
import torch
from timm.data import resolve_model_data_config
from torch import nn

from vitscope.data import DataConfig, class_count, data_config
from vitscope.data.config import IMAGENET_MEAN, IMAGENET_STD
from vitscope.errors import BadData

TIMM_MODELS = [
    "test_vit",
    "test_resnet",
    "test_convnext2",
    "test_byobnet",
    "vit_tiny_patch16_224.augreg_in21k",
]


@pytest.mark.parametrize("name", TIMM_MODELS)
def test_it_reads_what_timm_resolves(name: str) -> None:
    model = timm.create_model(name)
    ours, theirs = data_config(model), resolve_model_data_config(model)
    for key in ("input_size", "mean", "std", "interpolation", "crop_pct", "crop_mode"):
        assert getattr(ours, key) == theirs[key], key


def test_sizes_and_channels_given_at_creation_win_over_the_stored_configuration() -> None:
    assert data_config(timm.create_model("test_vit", img_size=64, in_chans=1)).input_size == (1, 64, 64)
    grey = data_config(timm.create_model("test_resnet", in_chans=1))
    assert grey.input_size[0] == len(grey.mean) == len(grey.std) == 1


def test_a_configuration_set_on_the_model_is_taken() -> None:
    model = nn.Conv2d(3, 8, 1)
    model.pretrained_cfg = {
        "input_size": [3, 32, 32],
        "mean": (0.1, 0.2, 0.3),
        "std": [1, 1, 1],
        "crop_pct": 1.0,
    }
    config = data_config(model)
    assert (config.input_size, config.mean, config.crop_pct) == ((3, 32, 32), (0.1, 0.2, 0.3), 1.0)


def test_wrapped_models_are_looked_into() -> None:
    model = timm.create_model("test_vit", img_size=64)
    assert data_config(nn.DataParallel(model)).input_size == (3, 64, 64)
    assert data_config(torch.compile(model)).input_size == (3, 64, 64)


def test_hugging_face_and_plain_models() -> None:
    from transformers import ViTConfig, ViTForImageClassification, ViTModel

    small = ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=48, num_labels=7)
    model = ViTForImageClassification(small)
    assert data_config(model).input_size == (3, 48, 48)
    assert class_count(model) == 7
    assert class_count(ViTModel(small)) is None
    assert data_config(nn.Flatten()) == DataConfig((3, 224, 224), IMAGENET_MEAN, IMAGENET_STD)


def test_class_count() -> None:
    assert class_count(timm.create_model("test_vit", num_classes=12)) == 12
    assert class_count(timm.create_model("test_vit", num_classes=0)) is None
    assert class_count(nn.Flatten()) is None


def test_round_trip_through_json() -> None:
    config = DataConfig((1, 28, 32), (0.5,), (0.25,), "bilinear", 0.9, "squash")
    assert DataConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"input_size": [32, 32]}, "channels, height, width"),
        ({"mean": [0.5, 0.5]}, "one per channel"),
        ({"std": [0.0]}, "positive"),
        ({"crop_pct": 1.2}, "at most 1"),
        ({"colour": "red"}, "unknown colour"),
    ],
)
def test_nonsense_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(BadData, match=message):
        DataConfig.from_dict(values)
