"""timm's classes at small sizes: the stem, and maps as large as timm is told."""

import pytest
import timm
import torch
from timm.models.resnet import BasicBlock
from torch import nn

from vitscope.core.errors import VitscopeError
from vitscope.models.zoo.small_images import SmallStemResNet, make_transformer


def test_stem_keeps_the_resolution() -> None:
    model = SmallStemResNet(block=BasicBlock, layers=(1, 1, 1, 1), channels=(8, 8, 8, 8), in_chans=1).eval()
    images = torch.randn(2, 1, 32, 32)
    assert model.maxpool(model.act1(model.bn1(model.conv1(images)))).shape == (2, 8, 32, 32)
    assert model.forward_features(images).shape == (2, 8, 4, 4)


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("resnet18_32", [32, 32, 16, 8, 4]),
        ("resnext_mini", [32, 32, 16, 8, 4]),
        ("pit_mini", [16, 8, 4]),
        ("twins_mini", [32, 16, 8, 4]),
        ("swin_mini", [32, 16, 8, 4]),
        ("pvt_mini", [32, 16, 8, 4]),
        ("mixer_mini", [8, 8]),
        ("localvit_mini", [8, 8]),
    ],
)
def test_features_are_as_large_as_timm_is_told(name: str, sides: list[int]) -> None:
    model = timm.create_model(name, features_only=True, out_indices=tuple(range(len(sides)))).eval()
    with torch.no_grad():
        maps = model(torch.randn(1, 3, 32, 32))
    assert [tuple(m.shape[2:]) for m in maps] == [(side, side) for side in sides]
    assert [32 // side for side in sides] == model.feature_info.reduction()
    assert [m.shape[1] for m in maps] == model.feature_info.channels()


def test_class_without_maps_says_so() -> None:
    with pytest.raises(VitscopeError, match=r"plain cannot be built with features_only; .*Tap"):
        make_transformer(nn.Linear, "plain", False, {"features_only": True})
