import pytest

from vitscope.anatomy import anatomy
from vitscope.core.errors import VitscopeError
from vitscope.curvature.select import select_parameters
from vitscope.models import create_model


@pytest.fixture(scope="module")
def vit():
    return create_model("vit_mini", depth=2)


@pytest.fixture(scope="module")
def resnet():
    return create_model("resnet_mini")


def test_a_module_a_pattern_a_list(vit, resnet) -> None:
    assert all(name.startswith("layer4.") for name in select_parameters(resnet, "layer4"))
    assert len(select_parameters(resnet, "layer4")) == len(list(resnet.layer4.parameters()))
    assert set(select_parameters(vit, "blocks.*.attn")) == {
        f"blocks.{i}.attn.{part}.{what}"
        for i in (0, 1)
        for part in ("qkv", "proj")
        for what in ("weight", "bias")
    }
    assert list(select_parameters(vit, "head, cls_token")) == ["cls_token", "head.weight", "head.bias"]
    assert list(select_parameters(vit, "*")) == [name for name, _ in vit.named_parameters()]


def test_a_kind_of_unit(vit, resnet) -> None:
    by_kind = select_parameters(vit, "kind:msa", anatomy(vit))
    assert list(by_kind) == list(select_parameters(vit, "blocks.*.attn"))
    mlp_and_head = select_parameters(vit, "kind:mlp, head", anatomy(vit))
    assert list(mlp_and_head) == list(select_parameters(vit, "blocks.*.mlp, head"))
    with pytest.raises(VitscopeError, match="no unit of kind 'msa'; it has"):
        select_parameters(resnet, "kind:msa", anatomy(resnet))
    with pytest.raises(VitscopeError, match="no kind 'attention'"):
        select_parameters(vit, "kind:attention", anatomy(vit))
    with pytest.raises(VitscopeError, match="needs the model's anatomy"):
        select_parameters(vit, "kind:msa")


def test_tied_weights_by_either_name_and_once() -> None:
    model = create_model("vit_mini", depth=2)
    model.blocks[1].mlp.fc1.weight = model.blocks[0].mlp.fc1.weight
    for place in (0, 1):
        chosen = select_parameters(model, f"blocks.{place}.mlp.fc1.weight")
        assert [id(p) for p in chosen.values()] == [id(model.blocks[0].mlp.fc1.weight)]
    assert len(select_parameters(model, "blocks.*.mlp.fc1.weight")) == 1
