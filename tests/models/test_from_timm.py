"""timm's models through `create_model`."""

import pytest
import torch

from vitscope.models import BadWeights, UnknownArgument, create_model


def test_image_size_goes_to_models_that_take_one() -> None:
    model = create_model("vit_tiny_patch16_224", img_size=32, num_classes=10, depth=1)
    assert model.pretrained_cfg["input_size"] == (3, 32, 32)
    assert model.pos_embed.shape[1] == 1 + 4
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_image_size_of_models_that_take_none_is_for_the_data() -> None:
    model = create_model("resnet18", img_size=(64, 48), num_classes=10)
    assert model.pretrained_cfg["input_size"] == (3, 64, 48)
    assert model.conv1.stride == (2, 2)
    assert model(torch.randn(2, 3, 64, 48)).shape == (2, 10)


def test_data_configuration_is_complete() -> None:
    config = create_model("vit_tiny_patch16_224", num_classes=3, in_chans=1, depth=1).pretrained_cfg
    assert config["input_size"] == (1, 224, 224)
    assert config["num_classes"] == 3
    assert {"mean", "std", "interpolation", "crop_pct"} <= config.keys()


def test_one_model_does_not_change_the_next() -> None:
    create_model("resnet18", img_size=32)
    assert create_model("resnet18").pretrained_cfg["input_size"] == (3, 224, 224)


def test_surplus_argument_beside_an_image_size() -> None:
    with pytest.raises(UnknownArgument, match="resnet18 takes no argument 'window'"):
        create_model("resnet18", img_size=32, window=4)


def test_no_weights_for_the_name() -> None:
    with pytest.raises(
        BadWeights, match=r"no pretrained weights for vit_tiny_r_s16_p8_224 \(.*vitscope models"
    ):
        create_model(
            "vit_tiny_r_s16_p8_224", pretrained=True, pretrained_cfg={"url": "", "architecture": "x"}
        )
