"""The facts of the table, against models with memory."""

import pytest

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
