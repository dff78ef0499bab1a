"""The convolutional ViT."""

import pytest
import torch

import vitscope as vs
from tests.surgery.checks import assert_equal, check_graph, outputs

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("kernel", "pattern"), [(3, "local"), (5, "local"), (8, "global")])
def test_tiny_is_vit_tiny_with_local_attention(kernel: int, pattern: str) -> None:
    model = vs.create_model("conv_vit_tiny", num_classes=100, kernel=kernel)
    plain = vs.create_model("vit_tiny_patch4_32", num_classes=100)
    shapes = {name: tuple(t.shape) for name, t in plain.state_dict().items()}
    assert {name: tuple(t.shape) for name, t in model.state_dict().items()} == shapes
    parts = vs.anatomy(model)
    assert [unit.kind for unit in parts].count("msa") == 12
    for unit in parts.of_kind("msa"):
        assert unit.attention is not None
        assert unit.attention.pattern == pattern
        assert unit.attention.window == ((kernel, kernel) if kernel < 8 else None)
        assert (unit.map_shape, unit.prefix_tokens) == ((192, 8, 8), 1)


def test_kernel_8_is_the_vit_to_the_bit_and_others_are_the_vit_localized() -> None:
    plain = vs.create_model("vit_mini", pretrained=True).eval()
    was = outputs(plain, IMAGES)
    for kernel in (8, 3):
        model = vs.create_model("conv_vit_mini", kernel=kernel).eval()
        model.load_state_dict(plain.state_dict())
        if kernel == 8:
            assert_equal(outputs(model, IMAGES), was)
        else:
            assert_equal(outputs(model, IMAGES), outputs(vs.surgery.localize(plain, kernel), IMAGES))


def test_kernel_5_unless_told_otherwise_and_it_learns() -> None:
    model = vs.create_model("conv_vit_mini", attn_drop_rate=0.1)
    assert model.kernel == 5
    model(IMAGES).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_saved_exported_compiled(tmp_path) -> None:
    model = vs.create_model("conv_vit_mini", kernel=3, depth=2).eval()
    vs.models.save_model(model, tmp_path, [str(i) for i in range(10)])
    assert_equal(outputs(vs.create_model(tmp_path), IMAGES), outputs(model, IMAGES))
    check_graph(model, IMAGES)


def test_other_image_sizes() -> None:
    model = vs.create_model("conv_vit_mini", kernel=3, img_size=48).eval()
    assert model.blocks[0].attn.reach.grid == (12, 12)
    model.set_input_size((32, 64))
    assert model(torch.randn(1, 3, 32, 64)).shape == (1, 10)
    assert model.blocks[0].attn.reach.grid == (8, 16)


def test_listed() -> None:
    assert set(vs.list_models("conv_vit*")) == {"conv_vit_mini", "conv_vit_tiny"}
