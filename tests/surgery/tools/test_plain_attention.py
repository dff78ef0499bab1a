"""Plain attention with a uniform head, against torch's own and against formulas."""

import pytest
import torch
from torch import Tensor, nn

from vitscope.anatomy.watch.graph import ModuleCall
from vitscope.core.errors import VitscopeError
from vitscope.surgery.tools.image_tokens import ImageTokens
from vitscope.surgery.tools.plain_attention import PlainAttention, UniformHead
from vitscope.surgery.tools.projections import ByHead, Projections

HEADS, WIDTH, CHANNELS, TOKENS = 3, 4, 12, 7


def projections_of(attention: nn.MultiheadAttention, slot: int | str = 0) -> Projections:
    """As torch packs them."""
    weights, biases = attention.in_proj_weight.detach().chunk(3), attention.in_proj_bias.detach().chunk(3)
    parts = [
        ByHead(w.view(HEADS, WIDTH, CHANNELS), b.view(HEADS, WIDTH))
        for w, b in zip(weights, biases, strict=True)
    ]
    proj = attention.out_proj
    weight = proj.weight.detach().view(CHANNELS, HEADS, WIDTH)
    return Projections(
        ModuleCall("", 0, 0, {}, {}), slot, 0, *parts, weight, proj.bias.detach(), scale=WIDTH**-0.5
    )


@pytest.fixture
def attention() -> nn.MultiheadAttention:
    torch.manual_seed(0)
    made = nn.MultiheadAttention(CHANNELS, HEADS, batch_first=True, dtype=torch.float64).eval()
    nn.init.normal_(made.in_proj_bias)
    nn.init.normal_(made.out_proj.bias)
    return made


def tokens(images: int = 2) -> Tensor:
    return torch.randn(
        images, TOKENS, CHANNELS, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )


def uniform(layout: ImageTokens) -> UniformHead:
    torch.manual_seed(2)
    head = UniformHead(layout, CHANNELS, 5, CHANNELS).double()
    nn.init.normal_(head.value.bias)
    nn.init.normal_(head.proj.weight)
    return head


@pytest.mark.parametrize("batch_axis", [0, 1])
@pytest.mark.parametrize("outputs", [None, 2])
def test_is_multi_head_attention(
    attention: nn.MultiheadAttention, batch_axis: int, outputs: int | None
) -> None:
    layout = ImageTokens(3, 2, batch_axis)
    plain = PlainAttention(projections_of(attention, "x"), HEADS, layout, outputs).eval()
    x = tokens()
    wanted, _ = attention(x, x, x)
    found = plain(x=x.transpose(0, 1).contiguous() if batch_axis else x, average=True)
    if outputs is not None:
        assert found[1] is None
        assert len(found) == 2
        found = found[0]
    torch.testing.assert_close(found.transpose(0, 1) if batch_axis else found, wanted)


@pytest.mark.parametrize("batch_axis", [0, 1])
def test_uniform_head_is_a_head_whose_scores_are_zero(
    attention: nn.MultiheadAttention, batch_axis: int
) -> None:
    layout = ImageTokens(3, 2, batch_axis)
    head = uniform(layout)
    plain = PlainAttention(projections_of(attention), HEADS, layout, uniform=head)
    x = tokens()
    weights = torch.zeros(TOKENS, TOKENS, dtype=torch.float64).softmax(-1)
    wanted = (
        attention(x, x, x)[0] + weights @ (x @ head.value.weight.T + head.value.bias) @ head.proj.weight.T
    )
    found = plain(x.transpose(0, 1) if batch_axis else x)
    torch.testing.assert_close(found.transpose(0, 1) if batch_axis else found, wanted)


def test_uniform_among_what_a_mask_shows(attention: nn.MultiheadAttention) -> None:
    layout = ImageTokens(3, 2)
    head = uniform(layout)
    plain = PlainAttention(projections_of(attention), HEADS, layout, uniform=head)
    x = tokens()
    seen = torch.rand(2, TOKENS, TOKENS, generator=torch.Generator().manual_seed(4)) > 0.4
    seen |= torch.eye(TOKENS, dtype=torch.bool)
    hidden = ~seen.repeat_interleave(HEADS, 0)
    weights = seen.double() / seen.sum(-1, keepdim=True)
    wanted = (
        attention(x, x, x, attn_mask=hidden)[0]
        + weights @ (x @ head.value.weight.T + head.value.bias) @ head.proj.weight.T
    )
    torch.testing.assert_close(plain(x, seen[:, None]), wanted)
    additive = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, float("-inf"))
    torch.testing.assert_close(plain(x, mask=additive[:, None]), wanted)
    with pytest.raises(VitscopeError, match="one mask for all heads"):
        plain(x, seen)


def test_gradients(attention: nn.MultiheadAttention) -> None:
    layout = ImageTokens(3, 2)
    plain = PlainAttention(projections_of(attention), 2, layout, uniform=uniform(layout))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert torch.autograd.gradcheck(plain, tokens(1).requires_grad_())


def test_dropout_in_training_only(attention: nn.MultiheadAttention) -> None:
    plain = PlainAttention(projections_of(attention), HEADS, ImageTokens(3, 2), dropout=(0.0, 0.25))
    x = tokens(200)
    torch.manual_seed(0)
    assert abs(float((plain.train()(x) == 0).double().mean()) - 0.25) < 0.02
    assert bool((plain.eval()(x) != 0).all())


def test_a_new_head_counts_for_nothing() -> None:
    head = UniformHead(ImageTokens(3, 2), CHANNELS, 5, 6)
    assert float(head(tokens().float()).detach().abs().max()) == 0.0
    assert head.value.weight.std() > 0
