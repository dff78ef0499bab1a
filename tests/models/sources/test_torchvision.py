"""torchvision's models through `create_model`."""

import pytest
import torch
import torchvision

from vitscope.data import data_config
from vitscope.models import UnknownArgument, create_model


def test_same_model_as_torchvision_makes() -> None:
    torch.manual_seed(0)
    ours = create_model("tv:resnet18", num_classes=7).eval()
    torch.manual_seed(0)
    theirs = torchvision.models.resnet18(num_classes=7).eval()
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images), rtol=0, atol=0)


def test_preprocessing_is_torchvisions() -> None:
    config = create_model("tv:resnet50").pretrained_cfg
    preset = torchvision.models.ResNet50_Weights.DEFAULT.transforms()
    assert config["mean"] == tuple(preset.mean)
    assert config["std"] == tuple(preset.std)
    assert data_config(create_model("tv:resnet50")).said_by == "the model"
    assert config["interpolation"] == "bilinear"
    assert config["crop_pct"] == pytest.approx(224 / 232)
    assert (config["input_size"], config["num_classes"]) == ((3, 224, 224), 1000)


def test_image_size() -> None:
    assert create_model("tv:resnet18", img_size=32).pretrained_cfg["input_size"] == (3, 32, 32)
    with torch.device("meta"):
        small, large = create_model("tv:vit_b_16", img_size=32), create_model("tv:vit_h_14")
    assert small.encoder.pos_embedding.shape[1] == 1 + 4
    assert large.pretrained_cfg["input_size"] == (3, 224, 224)  # its weights are for 518, the model is not


def test_surplus_argument() -> None:
    with pytest.raises(
        UnknownArgument, match="tv:resnet18 takes no argument 'width_per_grp'; did you mean width_per_group"
    ):
        create_model("tv:resnet18", width_per_grp=2)
