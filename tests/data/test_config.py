import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from timm.data import resolve_model_data_config
from torch import nn

from vitscope.core.errors import BadData, VitscopeError
from vitscope.core.interface import declare, declared
from vitscope.data import DataConfig, class_count, data_config
from vitscope.data.config import IMAGENET_MEAN, IMAGENET_STD

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


def test_who_said_mean_and_std(tmp_path: Path) -> None:
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    assert data_config(timm.create_model("test_vit")).said_by == "the model"
    plain = nn.Conv2d(3, 8, 1)
    assert data_config(plain).said_by == "nobody"
    with declared(plain, mean=0, std=1):
        config = data_config(plain)
        assert (config.mean, config.std, config.said_by) == ((0.0,) * 3, (1.0,) * 3, "the user")
    assert data_config(plain).said_by == "nobody"
    with declared(plain, mean=0.5):  # and nobody says what it was divided by
        assert data_config(plain).said_by == "nobody"
    small = ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=48)
    model = ViTForImageClassification(small)
    assert data_config(model).said_by == "nobody"
    model.save_pretrained(tmp_path)
    assert data_config(ViTForImageClassification.from_pretrained(tmp_path)).said_by == "nobody"
    ViTImageProcessor(image_mean=[0.1, 0.2, 0.3], image_std=[0.4, 0.5, 0.6]).save_pretrained(tmp_path)
    config = data_config(ViTForImageClassification.from_pretrained(tmp_path))
    assert (config.mean, config.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    assert (config.said_by, config.input_size, config.crop_mode) == (
        "its image processor",
        (3, 48, 48),
        "squash",
    )
    assert DataConfig.from_dict(config.to_dict()).said_by == "the model"  # a run folder says so
    for silent in ({"crop_pct": 1.0}, data_config(plain).to_dict()):
        assert DataConfig.from_dict(json.loads(json.dumps(silent))).said_by == "nobody"


def test_what_the_user_declares_counts_for_more_than_the_models_own_word() -> None:
    model = timm.create_model("test_vit")
    own = data_config(model)
    declare(model, mean=(0.1, 0.2, 0.3))
    assert data_config(model) == replace(own, mean=(0.1, 0.2, 0.3))
    assert data_config(model).said_by == "the user"
    assert data_config(nn.DataParallel(model)).mean == (0.1, 0.2, 0.3)
    with declared(model, mean=(0.5, 0.5)), pytest.raises(BadData, match=r"mean has 2 numbers .* 3 channels"):
        data_config(model)
    with (
        pytest.raises(VitscopeError, match="std is 0; expected a number, more than 0"),
        declared(model, std=0),
    ):
        data_config(model)


def test_three_constants_and_another_number_of_channels() -> None:
    four = data_config(timm.create_model("test_byobnet", in_chans=4))
    np.testing.assert_allclose(four.mean, [*IMAGENET_MEAN, np.mean(IMAGENET_MEAN)])
    np.testing.assert_allclose(four.std, [*IMAGENET_STD, np.mean(IMAGENET_STD)])
    one = data_config(timm.create_model("test_byobnet", in_chans=1))
    np.testing.assert_allclose(one.mean, [np.mean(IMAGENET_MEAN)])
    assert four.said_by == one.said_by == "nobody"  # three numbers say nothing about one channel, or a fourth
    same = data_config(timm.create_model("test_vit", in_chans=4))
    assert (same.mean, same.std, same.said_by) == ((0.5,) * 4, (0.5,) * 4, "the model")


def test_channels_of_models_that_do_not_say() -> None:
    for channels in (1, 3, 4):
        assert data_config(nn.Sequential(nn.Conv2d(channels, 8, 3))).input_size[0] == channels
    linear = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    assert data_config(linear).input_size[0] == 3
    with declared(linear, mean=(0.1, 0.2, 0.3, 0.4), std=0.5):
        assert data_config(linear).mean == (0.1, 0.2, 0.3, 0.4)


def test_the_same_constants_for_other_channels() -> None:
    even = DataConfig((3, 8, 8), (0.5,), (0.25,), said_by="the user")
    grey = even.for_channels(1)
    assert (grey.input_size, grey.mean, grey.std, grey.said_by) == ((1, 8, 8), (0.5,), (0.25,), "the user")
    assert even.for_channels(3) is even
    assert DataConfig(said_by="the model").for_channels(4).said_by == "nobody"
    with pytest.raises(BadData, match="the images have 1 channels; expected one number per channel, or one"):
        DataConfig(said_by="the user").for_channels(1)


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
        ({"input_size": [32, 32]}, "2 values.*expected 3 values"),
        ({"mean": [0.5, 0.5]}, "one per channel"),
        ({"std": [0.0]}, "more than 0"),
        ({"crop_pct": 1.2}, "from 0.1 to 1"),
        ({"crop_pct": 1e-9}, "from 0.1 to 1"),
        ({"input_size": [3, 10**9, 10**9]}, "input_size is"),
        ({"colour": "red"}, "unknown colour"),
    ],
)
def test_nonsense_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(VitscopeError, match=message):
        DataConfig.from_dict(values)
