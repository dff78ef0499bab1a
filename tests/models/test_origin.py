"""What a model remembers about itself."""

from timm.data import IMAGENET_DEFAULT_MEAN
from timm.models import PretrainedCfg
from torch import nn

from vitscope.models.origin import Origin, origin, pair, set_input, set_origin


def test_known_over_said_over_imagenet() -> None:
    model = nn.Identity()
    model.pretrained_cfg = {"std": (2.0,), "crop_pct": 0.5, "interpolation": None}
    set_input(model, crop_pct=0.9, input_size=None)
    assert model.pretrained_cfg["crop_pct"] == 0.9
    assert model.pretrained_cfg["std"] == (2.0,)
    assert model.pretrained_cfg["mean"] == IMAGENET_DEFAULT_MEAN
    assert model.pretrained_cfg["interpolation"] == "bicubic"
    assert model.pretrained_cfg["input_size"] == (3, 224, 224)


def test_timms_own_type_is_read() -> None:
    model = nn.Identity()
    model.pretrained_cfg = PretrainedCfg(input_size=(1, 8, 8))
    set_input(model)
    assert model.pretrained_cfg["input_size"] == (1, 8, 8)


def test_origin_is_a_copy() -> None:
    model, arguments = nn.Identity(), {"depth": 2}
    set_origin(model, "net", arguments)
    arguments["depth"] = 3
    assert origin(model) == Origin("net", {"depth": 2})


def test_pair() -> None:
    assert pair(3) == (3, 3)
    assert pair((3, 4)) == (3, 4)
    assert pair(None) is None
