"""ViTs that look around: the convolutional ViT, and LocalViT's published size, formula and class token."""

import pytest
import torch
from torch import Tensor

import vitscope as vs
from tests.surgery.checks import assert_equal, check_graph, outputs
from vitscope.models import create_model
from vitscope.models.zoo.local_vits import LocalFeedForward, patch_side

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


def test_published_size() -> None:
    width, hidden, squeezed = 192, 768, 4
    attention = 3 * width * width + 3 * width + width * width + width + 2 * width
    norms = 2 * (2 * hidden) + 2 * width
    excitation = hidden * squeezed + squeezed + squeezed * hidden + hidden
    feed_forward = 2 * width * hidden + 9 * hidden + norms + excitation
    ends = (3 * 16 * 16 + 1) * width + 197 * width + width + 2 * width + 1000 * width + 1000
    with torch.device("meta"):
        model = create_model("localvit_tiny")
    assert sum(p.numel() for p in model.parameters()) == ends + 12 * (attention + feed_forward)
    assert round((ends + 12 * (attention + feed_forward)) / 1e6, 1) == 5.9


def hard_swish(x: Tensor) -> Tensor:
    return x * (x + 3).clamp(0, 6) / 6


def norm(x: Tensor, layer: torch.nn.BatchNorm2d) -> Tensor:
    scale = layer.weight / (layer.running_var + layer.eps).sqrt()
    return (x - layer.running_mean) * scale + layer.bias


def randomised(feed_forward: LocalFeedForward) -> LocalFeedForward:
    generator = torch.Generator().manual_seed(0)
    feed_forward = feed_forward.double().eval()
    for name, tensor in feed_forward.state_dict().items():
        if tensor.is_floating_point():
            drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
            tensor.copy_(drawn.abs() + 0.5 if "running_var" in name else drawn)
    return feed_forward


def test_formula() -> None:
    """Position by position, with loops; (rows, columns, channels)."""
    rows, columns = 2, 3
    layer = randomised(LocalFeedForward(4, 8, grid=(rows, columns), prefix_tokens=1))
    tokens = torch.randn(1, 1 + rows * columns, 4, dtype=torch.float64)
    grid = tokens[0, 1:].reshape(rows, columns, 4)
    inner = hard_swish(norm(grid @ layer.expand[0].weight[:, :, 0, 0].T, layer.expand[1]))
    mixed = torch.zeros_like(inner)
    for r in range(rows):
        for c in range(columns):
            for dr in (-1, 0, 1):
                for dc in (-1, 0, 1):
                    if 0 <= r + dr < rows and 0 <= c + dc < columns:
                        mixed[r, c] += layer.local[0].weight[:, 0, dr + 1, dc + 1] * inner[r + dr, c + dc]
    mixed = hard_swish(norm(mixed, layer.local[1]))
    squeeze, excite = layer.excite.fc1, layer.excite.fc2
    gate = (squeeze.weight[:, :, 0, 0] @ mixed.mean((0, 1)) + squeeze.bias).relu()
    gate = (excite.weight[:, :, 0, 0] @ gate + excite.bias + 3).clamp(0, 6) / 6
    expected = norm((mixed * gate) @ layer.project[0].weight[:, :, 0, 0].T, layer.project[1])
    with torch.no_grad():
        found = layer(tokens)
    torch.testing.assert_close(found[0, 1:].reshape(rows, columns, 4), expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(found[0, 0], torch.zeros(4, dtype=torch.float64))


@pytest.mark.parametrize("images", [1, 2])
def test_gradient(images: int) -> None:
    layer = randomised(LocalFeedForward(2, 4, grid=(2, 2), prefix_tokens=1))
    tokens = torch.randn(images, 5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (tokens,))


def test_class_token_passes_by_the_feed_forward() -> None:
    torch.manual_seed(0)
    block = create_model("localvit_mini").blocks[0].eval()
    tokens = torch.randn(2, 65, 96)
    with torch.no_grad():
        after_attention = tokens + block.attn(block.norm1(tokens))
        after = block(tokens)
    assert torch.equal(after[:, 0], after_attention[:, 0])
    assert not torch.allclose(after[:, 1:], after_attention[:, 1:])


@pytest.mark.parametrize(("pixels", "patch"), [(32, 2), (48, 4), (64, 4), (224, 16)])
def test_small_images_get_small_patches(pixels: int, patch: int) -> None:
    assert patch_side(pixels) == patch
    with torch.device("meta"):
        model = create_model("localvit_tiny", img_size=pixels, num_classes=10)
        assert model(torch.empty(2, 3, pixels, pixels)).shape == (2, 10)
    assert model.patch_embed.patch_size == (patch, patch)


def test_oblong_images_and_other_tokens() -> None:
    images = torch.randn(2, 3, 16, 32)
    for arguments in ({}, {"reg_tokens": 2}, {"class_token": False, "global_pool": "avg"}):
        model = create_model("localvit_mini", img_size=(16, 32), depth=1, **arguments).eval()
        assert model(images).shape == (2, 10)
