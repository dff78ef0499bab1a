"""Global attention made local, on models of several libraries and around modules that attend in different ways."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import vitscope as vs
from tests.cases import AT_32, ATTENTION_DESIGNS, HAND_MADE, HUGGING_FACE, Case
from tests.surgery.checks import assert_equal, check_backward, check_graph, check_operated, outputs, short
from vitscope.anatomy.structure.neighbourhood import neighbourhood
from vitscope.core.errors import VitscopeError
from vitscope.surgery import CannotOperate, NoEffectWarning
from vitscope.surgery.localize import FusedReach, SoftmaxReach
from vitscope.surgery.tools.graft import graft

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
BY_NAME = {case.name: case for case in (*AT_32, *HUGGING_FACE, *ATTENTION_DESIGNS, HAND_MADE)}
WORKS = [
    "vit_tiny/2",  # fused, class token
    "pit_ti/4",  # several grids
    "hf:vit-eager",  # softmax by hand
    "hf:deit-sdpa",  # two prefix tokens
    "hf:beit-sdpa",
    "relative bias, fused",
    "rotary",
    "shifted windows, relative bias",  # the last stage is one window
    "hand-made",  # nn.MultiheadAttention, 8x12 points
]


def test_on_a_vit(tmp_path) -> None:
    model = short("vit_mini", depth=2)
    was, keys = outputs(model, IMAGES), list(model.state_dict())
    vs.surgery.localize(model, kernel=3)
    assert list(model.state_dict()) == keys
    assert float((outputs(model, IMAGES)[0] - was[0]).abs().max()) > 0.01
    assert vs.surgery.record(model)[0]["places"] == ["blocks.0.attn", "blocks.1.attn"]
    check_operated(model, IMAGES, tmp_path)
    assert_equal(outputs(vs.surgery.undo(model), IMAGES), was)


@pytest.mark.parametrize("name", WORKS)
def test_no_weight_is_left_outside_the_neighbourhood(name: str) -> None:
    case: Case = BY_NAME[name]
    model, images = case.model(), case.images(2)
    was = outputs(model, images)
    vs.surgery.localize(model, kernel=3, example=images)
    places = vs.surgery.record(model)[0]["places"]
    parts = vs.anatomy(model, images)
    with vs.Tap(model, parts, units=places, attention=True) as tap, torch.no_grad():
        model(images)
    for unit in (parts[place] for place in places):
        assert unit.attention is not None
        assert (unit.attention.pattern, unit.attention.window) == ("local", (3, 3))
        seen = neighbourhood(unit.map_shape[1:], (3, 3), unit.prefix_tokens)
        for found in tap.attention[unit.name]:
            assert float(found.weights[..., ~seen].abs().max()) == 0.0
            assert float(found.weights[..., seen].min()) > 0.0
    check_backward(model, images)
    assert_equal(outputs(vs.surgery.undo(model), images), was)


@pytest.mark.parametrize("name", [pytest.param("hf:vit-eager", marks=pytest.mark.slow), "hand-made"])
def test_exports_and_compiles(name: str) -> None:
    case = BY_NAME[name]
    model, images = case.model(), case.images(2)
    check_graph(vs.surgery.localize(model, kernel=3, example=images), images)


def test_a_kernel_as_large_as_the_grid_changes_nothing() -> None:
    model = vs.create_model("vit_mini", pretrained=True).eval()
    was = outputs(model, IMAGES)
    with pytest.warns(NoEffectWarning, match="8x8 map, all of which a kernel of 8 sees"):
        vs.surgery.localize(model, kernel=8)
    assert_equal(outputs(model, IMAGES), was)
    pyramid = vs.create_model("pit_mini")  # 16x16, 8x8 and 4x4 tokens
    vs.surgery.localize(pyramid, kernel=8)
    assert vs.surgery.record(pyramid)[0]["places"] == [f"transformers.0.blocks.{i}.attn" for i in range(2)]


def test_layers_and_other_image_sizes() -> None:
    model = vs.create_model("vit_mini", dynamic_img_size=True).eval()
    vs.surgery.localize(model, kernel=3, layers="upper")
    assert vs.surgery.record(model)[0]["options"]["layers"] == [f"blocks.{i}.attn" for i in (3, 4, 5)]
    larger = torch.randn(1, 3, 64, 64)
    parts = vs.anatomy(model, larger)
    assert [u.attention.pattern for u in parts.of_kind("msa") if u.attention] == ["global"] * 3 + [
        "local"
    ] * 3
    wide = torch.randn(1, 3, 32, 48)
    with vs.Tap(model, vs.anatomy(model, wide), units=["blocks.5.attn"], attention=True) as tap:
        model(wide)
    seen = tap.attention["blocks.5.attn"][0].weights[0, 0] > 0
    assert torch.equal(seen, neighbourhood((8, 12), (3, 3), 1))


def test_attention_that_is_not_global_is_left_alone() -> None:
    with pytest.warns(NoEffectWarning, match="window attention"):
        vs.surgery.localize(vs.create_model("swin_mini"), kernel=3, layers=["layers.0*"])
    with pytest.warns(NoEffectWarning, match="no MSA unit"):
        vs.surgery.localize(vs.create_model("resnet_mini"), kernel=3)
    with pytest.raises(CannotOperate, match="choose layers without it"):
        vs.surgery.localize(vs.create_model("swin_mini"), kernel=3, layers=["layers.[03]*"])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gated positional", "after the softmax"),
        ("talking heads and class attention", "after the softmax .linear."),
        ("mask units", "row by row"),
    ],
)
def test_refused_and_untouched(name: str, why: str) -> None:
    case = BY_NAME[name]
    model, images = case.model(), case.images(2)
    was = outputs(model, images)
    with pytest.raises(CannotOperate, match=why):
        vs.surgery.localize(model, kernel=3, example=images)
    assert_equal(outputs(model, images), was)
    assert vs.surgery.record(model) == []


class Attends(nn.Module):
    """Attention without projections, twice, in one of several ways; the first time its result is the query."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        return self.once(self.once(x, x), x)

    def once(self, query: Tensor, x: Tensor) -> Tensor:
        if self.way == "fused":
            return F.scaled_dot_product_attention(query, x, x, scale=1.0)
        if self.way == "transposed":
            return ((x @ query.mT).softmax(-2).mT) @ x
        scores = query @ x.mT
        how = {
            "torch.softmax": lambda: torch.softmax(scores, -1),
            "method": lambda: scores.softmax(dim=-1),
            "functional": lambda: F.softmax(scores, dim=2),
            "module": lambda: nn.Softmax(-1)(scores),
        }
        return how[self.way]() @ x


def wanted(x: Tensor, which: int, grid: tuple[int, int], kernel: int, prefix: int) -> Tensor:
    """Both attentions in float64, the one that is meant restricted."""
    seen = neighbourhood(grid, (kernel, kernel), prefix)
    query = x.double()
    for turn in range(2):
        scores = query @ x.double().mT
        scores = scores.masked_fill(~seen, float("-inf")) if turn == which else scores
        query = scores.softmax(-1) @ x.double()
    return query.float()


@pytest.mark.parametrize("way", ["fused", "torch.softmax", "method", "functional", "module", "transposed"])
@pytest.mark.parametrize("which", [0, 1])
def test_the_one_that_is_meant_and_no_other(way: str, which: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Attends(way))
    reach = (FusedReach if way == "fused" else SoftmaxReach)(which, (4, 5), 3, 1)
    graft(model, "0", reach, "localize", "around")
    x = torch.randn(2, 21, 6)
    torch.testing.assert_close(model(x), wanted(x, which, (4, 5), 3, 1))
    other = torch.randn(2, 1 + 8 * 10, 6)  # a grid of the same shape
    torch.testing.assert_close(model(other), wanted(other, which, (8, 10), 3, 1))
    with pytest.raises(VitscopeError, match="4x5"):
        model(torch.randn(2, 1 + 7 * 7, 6))
    assert not model.state_dict()


def test_multi_head_attention_is_entered() -> None:
    torch.manual_seed(0)
    inner = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 20, 8)
    seen = neighbourhood((4, 5), (3, 3))
    for need_weights in (False, True):
        by_mask = inner(x, x, x, need_weights=need_weights, attn_mask=~seen)[0]
        model = nn.ModuleDict({"attend": nn.MultiheadAttention(8, 2, batch_first=True)}).eval()
        model["attend"].load_state_dict(inner.state_dict())
        graft(
            model,
            "attend",
            (SoftmaxReach if need_weights else FusedReach)(0, (4, 5), 3, 0),
            "reach",
            "around",
        )
        torch.testing.assert_close(model["attend"](x, x, x, need_weights=need_weights)[0], by_mask)
