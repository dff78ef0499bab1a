"""Window attention against loops over points in float64, against timm's Swin, and its derivatives."""

import pytest
import torch
from timm.models.swin_transformer import WindowAttention as SwinAttention
from torch import Tensor

from vitscope.models.errors import CannotBuild
from vitscope.models.zoo.alternet import WindowAttention, relative_position_bias

# divided by the window; padded on both sides; padded on one; narrower than the window; a single point
SIZES = [(8, 4), (6, 7), (5, 8), (2, 9), (3, 3), (1, 1)]


def make(
    channels: int = 5, heads: int = 2, window: int = 4, out: int = 7, dim_head: int = 3
) -> WindowAttention:
    torch.manual_seed(0)
    attention = WindowAttention(channels, heads, window, out, dim_head).double()
    torch.nn.init.normal_(attention.relative_position_bias_table)  # large enough to matter
    return attention


def by_loops(attention: WindowAttention, x: Tensor) -> Tensor:
    """Every point looks at the points of its window, one head after the other."""
    images, _, height, width = x.shape
    tall, wide, d = min(attention.window, height), min(attention.window, width), attention.dim_head
    table, zero = attention.relative_position_bias_table, attention.window - 1
    points = [(y, z) for y in range(height) for z in range(width)]
    out = torch.zeros(images, attention.proj.out_features, height, width, dtype=x.dtype)
    for image in range(images):
        for y, z in points:
            seen = [(b, c) for b, c in points if (b // tall, c // wide) == (y // tall, z // wide)]
            heads = []
            for head in range(attention.heads):
                rows = slice(head * d, head * d + d)
                wq, wk, wv = (getattr(attention, n).weight[rows] for n in ("query", "key", "value"))
                q = wq @ x[image, :, y, z]
                scores = torch.stack(
                    [
                        q @ (wk @ x[image, :, b, c]) / d**0.5 + table[y - b + zero, z - c + zero]
                        for b, c in seen
                    ]
                )
                weights = scores.exp() / scores.exp().sum()
                heads.append(
                    sum(w * (wv @ x[image, :, b, c]) for w, (b, c) in zip(weights, seen, strict=True))
                )
            out[image, :, y, z] = attention.proj.weight @ torch.cat(heads) + attention.proj.bias
    return out


@pytest.mark.parametrize("size", SIZES)
def test_every_point_attends_to_its_window(size: tuple[int, int]) -> None:
    attention, x = make(), torch.randn(2, 5, *size, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(attention(x), by_loops(attention, x), rtol=1e-12, atol=1e-12)


def test_swin_with_its_table_repeated_over_heads() -> None:
    window, heads, width = 4, 3, 10
    ours = make(width, heads, window, width, 8)
    swin = SwinAttention(width, heads, head_dim=8, window_size=window, qkv_bias=False).double().eval()
    with torch.no_grad():
        swin.qkv.weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        swin.proj.load_state_dict(ours.proj.state_dict())
        swin.relative_position_bias_table.copy_(
            ours.relative_position_bias_table.reshape(-1, 1).expand(-1, heads)
        )
        bias = relative_position_bias(ours.relative_position_bias_table, window, window)
        theirs = swin._get_rel_pos_bias()  # (1, heads, points, points)
        assert torch.equal(theirs, bias.expand_as(theirs))
        x = torch.randn(6, width, window, window, dtype=torch.float64)
        expected = swin(x.flatten(2).transpose(1, 2)).transpose(1, 2).view_as(x)
        torch.testing.assert_close(ours(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("tall", "wide"), [(3, 3), (2, 3), (1, 2)])
def test_bias_of_a_part_of_the_window(tall: int, wide: int) -> None:
    table = torch.randn(5, 5)
    bias = relative_position_bias(table, tall, wide)
    for i in range(tall * wide):
        for j in range(tall * wide):
            assert bias[i, j] == table[i // wide - j // wide + 2, i % wide - j % wide + 2]


def test_padding_is_no_key() -> None:
    """Attention to equal points gives what one of them gives; keys of zeros would draw it towards zero."""
    attention = make()
    x = torch.randn(1, 5, 1, 1, dtype=torch.float64)
    with torch.no_grad():
        alone, many = attention(x), attention(x.expand(1, 5, 6, 7))
    torch.testing.assert_close(many, alone.expand_as(many), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [(4, 2), (3, 5)])
def test_derivatives(size: tuple[int, int]) -> None:
    attention = make(2, 2, 2, 2, 2)
    names, parameters = zip(*attention.named_parameters(), strict=True)

    def function(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(attention, dict(zip(names, values, strict=True)), (x,))

    x = torch.randn(1, 2, *size, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, (x, *parameters))
    assert torch.autograd.gradgradcheck(function, (x, *parameters))


def test_channels_last_stays_channels_last() -> None:
    attention, x = make(out=5), torch.randn(2, 5, 8, 8, dtype=torch.float64)
    out = attention(x.to(memory_format=torch.channels_last))
    assert out.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(out, attention(x), rtol=1e-12, atol=1e-12)


def test_parameters() -> None:
    attention = WindowAttention(20, heads=3, window=7, out_channels=80)
    shapes = {name: tuple(value.shape) for name, value in attention.state_dict().items()}
    assert shapes == {
        "query.weight": (192, 20),
        "key.weight": (192, 20),
        "value.weight": (192, 20),
        "proj.weight": (80, 192),
        "proj.bias": (80,),
        "relative_position_bias_table": (13, 13),
    }


@pytest.mark.parametrize("arguments", [{"heads": 0, "window": 4}, {"heads": 2, "window": 0}])
def test_refuses_nothing_at_all(arguments: dict[str, int]) -> None:
    with pytest.raises(CannotBuild, match="at least 1"):
        WindowAttention(8, **arguments)
