"""Uniform heads: variants A, B and C of UA Table 1."""

from itertools import product

import pytest
import timm
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.cases import AT_32, ATTENTION_DESIGNS, HAND_MADE, HUGGING_FACE, Case, one_in
from tests.surgery.checks import (
    assert_close,
    assert_equal,
    check_backward,
    check_graph,
    check_operated,
    outputs,
    short,
)
from vitscope.surgery import CannotOperate, NoEffectWarning

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
BY_NAME = {case.name: case for case in (*AT_32, *HUGGING_FACE, *ATTENTION_DESIGNS, HAND_MADE)}
PLAIN = [
    "fused",
    "pit_ti/4",
    "hf:vit-sdpa",
    "hf:vit-eager",
    "hf:deit-sdpa",
    "hf:dinov2-sdpa",
    "hand-made",
]


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def last_head_uniform(attention: nn.Module, x: Tensor) -> Tensor:
    """timm's attention, obviously, in float64, with the mean of its values for the last head."""
    attention = attention.double()
    weight, bias = attention.qkv.weight, attention.qkv.bias
    q, k, v = (x @ w.T + b for w, b in zip(weight.chunk(3), bias.chunk(3), strict=True))
    width = attention.head_dim
    found = []
    for h in range(attention.num_heads):
        part = slice(h * width, (h + 1) * width)
        scores = q[..., part] @ k[..., part].mT / width**0.5
        if h == attention.num_heads - 1:
            scores = torch.zeros_like(scores)
        found.append(scores.softmax(-1) @ v[..., part])
    return torch.cat(found, -1) @ attention.proj.weight.T + attention.proj.bias


@pytest.mark.parametrize("variant", ["A", "B"])
def test_the_last_head_becomes_uniform_and_the_others_stay(variant: str) -> None:
    model = vs.create_model("vit_mini", pretrained=True).eval()
    x = torch.randn(2, 65, 96, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    wanted = [last_head_uniform(block.attn, x) for block in model.blocks]
    vs.surgery.uniform_heads(model.float(), variant)
    for block, one in zip(model.blocks, wanted, strict=True):
        torch.testing.assert_close(block.attn.double()(x), one, atol=1e-12, rtol=0)


def test_an_appended_head_adds_what_it_makes_of_the_mean_token() -> None:
    model = vs.create_model("vit_mini", pretrained=True).eval()
    x = torch.randn(2, 65, 96, generator=torch.Generator().manual_seed(2))
    before = model.blocks[2].attn(x)
    vs.surgery.uniform_heads(model, "C")
    head = model.blocks[2].attn.uniform_head.head
    assert torch.equal(model.blocks[2].attn(x), before)
    nn.init.normal_(head.proj.weight)
    nn.init.normal_(head.value.bias)
    heads = torch.stack([head.value(token) for token in x.unbind(1)], 1)  # values first, then their mean
    added = heads.mean(1, keepdim=True) @ head.proj.weight.T
    torch.testing.assert_close(model.blocks[2].attn(x), before + added)


@pytest.mark.parametrize(("variant", "millions"), [("A", 21.46), ("B", 22.05), ("C", 29.14)])
def test_parameters_of_vit_small(variant: str, millions: float) -> None:
    """The paper's 21, 22 and 29 M of 22 M."""
    model = timm.create_model("vit_small_patch16_224", dynamic_img_size=True)
    assert round(parameters(model) / 1e6, 2) == 22.05
    vs.surgery.uniform_heads(model, variant, example=(3, 32, 32))
    assert round(parameters(model) / 1e6, 2) == millions


@pytest.mark.parametrize("variant", ["A", "B", "C"])
def test_operated(variant: str, tmp_path) -> None:
    model = short("vit_mini", depth=2)
    was, before = outputs(model, IMAGES), parameters(model)
    vs.surgery.uniform_heads(model, variant, layers="upper")
    d, hd = 96, 32
    change = {"A": -2 * hd * (d + 1), "B": -hd, "C": 4 * d * d + 2 * d}[variant]
    assert parameters(model) - before == change
    assert [u.name for u in vs.anatomy(model).of_kind("msa")] == ["blocks.0.attn", "blocks.1.attn"]
    check_operated(model, IMAGES, tmp_path)
    if variant == "C":
        assert_equal(outputs(vs.surgery.undo(model), IMAGES), was)
    else:
        with pytest.raises(CannotOperate, match="cannot be undone"):
            vs.surgery.undo(model)


@pytest.mark.parametrize("name", one_in(2, PLAIN))
def test_families(name: str) -> None:
    case: Case = BY_NAME[name]
    images = case.images(2)
    found = {}
    for variant in "ABC":
        model = case.model()
        was, units = outputs(model, images), [(u.name, u.kind) for u in vs.anatomy(model, images)]
        vs.surgery.uniform_heads(model, variant, example=images)
        assert [(u.name, u.kind) for u in vs.anatomy(model, images)] == units
        found[variant] = outputs(model, images)
        check_backward(model, images)
        if variant == "C":
            assert_equal(found["C"], was)
        else:
            assert float((found[variant][0] - was[0]).abs().max()) > 1e-5
    assert_close(found["B"], found["A"])


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("hand-made", "A"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in product(["hf:vit-eager"], "AC")),
        pytest.param("hand-made", "C", marks=pytest.mark.slow),
    ],
)
def test_exports_and_compiles(name: str, variant: str) -> None:
    case = BY_NAME[name]
    model, images = case.model(), case.images(2)
    check_graph(vs.surgery.uniform_heads(model, variant, example=images), images)


def test_every_new_parameter_learns_after_the_first_step() -> None:
    for variant in "BC":
        model = vs.create_model("vit_mini", pretrained=True)
        vs.surgery.uniform_heads(model, variant)
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(IMAGES), torch.tensor([3, 7])).backward()
            optimizer.step()
        new = {n: p for n, p in model.named_parameters() if ".uniform" in n}
        assert len(new) == 6 * 3
        assert all(p.grad is not None and bool((p.grad != 0).any(-1).all()) for p in new.values())


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("shifted windows, relative bias", "'add'"),
        ("relative bias, fused", "position bias"),
        ("rotary", "'cat'"),
        ("gated positional", "gating_param"),
        ("pooled keys", "no module of its own"),
    ],
)
def test_a_refuses_what_is_not_plain_and_c_takes_it(name: str, why: str) -> None:
    case = BY_NAME[name]
    model, images = case.model(), case.images(2)
    was = outputs(model, images)
    with pytest.raises(CannotOperate, match=f"{why}.*variant='C'"):
        vs.surgery.uniform_heads(model, "A", example=images)
    assert_equal(outputs(model, images), was)
    vs.surgery.uniform_heads(model, "C", example=images)
    assert_equal(outputs(model, images), was)
    assert vs.surgery.record(model)[0]["places"]


def test_refusals() -> None:
    with pytest.raises(CannotOperate, match="one head"):
        vs.surgery.uniform_heads(vs.create_model("vit_mini", num_heads=1), "A")
    with pytest.warns(NoEffectWarning, match="no MSA unit"):
        vs.surgery.uniform_heads(vs.create_model("resnet_mini"))
    localized = vs.surgery.localize(vs.create_model("vit_mini"), kernel=3)
    with pytest.raises(CannotOperate, match="uniform_heads first"):
        vs.surgery.uniform_heads(localized, "A")
    broadcast = vs.surgery.broadcast_context(vs.create_model("vit_mini"), where="msa")
    with pytest.raises(CannotOperate, match="uniform_heads first"):
        vs.surgery.uniform_heads(broadcast, "A")


def test_a_model_that_reads_its_attention_modules_is_left_as_it_was() -> None:
    model = vs.create_model("vit_mini").eval()
    was = outputs(model, IMAGES)
    model.blocks[5].register_forward_hook(lambda block, *_: block.attn.head_dim and None)
    with pytest.raises(CannotOperate, match=r"head_dim.*variant='C'"):
        vs.surgery.uniform_heads(model, "A")
    assert_equal(outputs(model, IMAGES), was)
