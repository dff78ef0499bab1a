"""The facts of the table, against models with memory."""

import pytest
import torchvision

from vitscope.anatomy.flops import count_flops
from vitscope.models import create_model, describe


@pytest.mark.parametrize(
    ("name", "source"), [("vit_mini", "vitscope"), ("resnet18", "timm"), ("tv:resnet18", "torchvision")]
)
def test_counts_what_a_real_model_has(name: str, source: str) -> None:
    info = describe(name)
    model = create_model(name)
    assert info.parameters == sum(p.numel() for p in model.parameters())
    assert info.input_size == model.pretrained_cfg["input_size"]
    assert info.source == source
    assert info.flops == count_flops(model, info.input_size)


def test_constructor_that_calculates_with_tensors() -> None:
    info = describe("tv:regnet_x_400mf")
    published = torchvision.models.RegNet_X_400MF_Weights.DEFAULT.meta
    assert info.parameters == published["num_params"]
    assert info.flops is not None
    assert info.flops / 2e9 == pytest.approx(published["_ops"], abs=5e-4)  # multiply-adds, rounded


def test_pass_that_needs_weights_has_no_flops() -> None:
    assert describe("tests.models.factories:NeedsValues").flops is None
