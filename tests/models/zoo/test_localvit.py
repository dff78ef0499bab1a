"""LocalViT: the published size, the formula of its feed-forward network, and what it does to the class token."""

import pytest
import torch
from torch import Tensor

from vitscope.models import create_model
from vitscope.models.zoo.localvit import LocalFeedForward, patch_side


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
