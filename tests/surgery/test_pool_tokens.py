"""Mean of the patch tokens in the place of the class token, against timm's own pooling."""

from functools import partial

import pytest
import timm
import torch

import vitscope as vs
from tests.cases import HUGGING_FACE, TORCHVISION, Case, timm_case
from tests.surgery.checks import assert_close, assert_equal, check_operated, outputs
from vitscope.surgery import CannotOperate, NoEffectWarning
from vitscope.surgery.pool_tokens import PooledPrefix, WithoutPrefix

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
SMALL = {"img_size": 32, "patch_size": 8, "depth": 3}
HF = {case.name: case for case in HUGGING_FACE}


def vit(**arguments):
    torch.manual_seed(0)
    return timm.create_model("vit_tiny_patch16_224", **SMALL, **arguments).eval()


def test_keep_is_what_timm_does() -> None:
    model, pooled = vit(), vit(global_pool="avg", fc_norm=False)
    pooled.load_state_dict(model.state_dict())
    vs.surgery.pool_tokens(model)
    assert_close(outputs(model, IMAGES), outputs(pooled, IMAGES))


def test_drop_is_a_vit_that_never_had_one() -> None:
    model, without = vit(), vit(global_pool="avg", fc_norm=False, class_token=False)
    state = {name: value for name, value in model.state_dict().items() if name != "cls_token"}
    without.load_state_dict({**state, "pos_embed": state["pos_embed"][:, 1:]})
    vs.surgery.pool_tokens(model, "drop")
    assert_close(outputs(model, IMAGES), outputs(without, IMAGES))
    attention = vs.anatomy(model)["blocks.0.attn"].attention
    assert attention is not None
    assert (attention.queries, attention.keys) == (16, 16)


def test_both_tokens_of_a_distilled_model() -> None:
    case = timm_case("deit_tiny_distilled_patch16_224", 32, **SMALL)
    model, reference = case.model(), case.model()
    vs.surgery.pool_tokens(model, "drop")
    tokens = reference.patch_embed(IMAGES) + reference.pos_embed[:, 2:]
    for block in reference.blocks:
        tokens = block(tokens)
    mean = reference.norm(tokens).mean(1)
    assert_close(outputs(model, IMAGES), [(reference.head(mean) + reference.head_dist(mean)) / 2])


@pytest.mark.parametrize("step", [PooledPrefix(1, 2, False), PooledPrefix(1, 2, True), WithoutPrefix(1, 2)])
def test_gradients(step) -> None:
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(step, x)


@pytest.mark.parametrize(
    ("class_token", "graph"),
    [("keep", False), ("drop", True), pytest.param("keep", True, marks=pytest.mark.slow)],
)
def test_on_a_vit(class_token: str, graph: bool, tmp_path) -> None:
    model = vs.create_model("vit_tiny_patch16_224", **SMALL, num_classes=10).eval()
    was, before = outputs(model, IMAGES), sum(p.numel() for p in model.parameters())
    vs.surgery.pool_tokens(model, class_token)
    assert sum(p.numel() for p in model.parameters()) == before
    assert not torch.equal(outputs(model, IMAGES)[0], was[0])
    model(IMAGES).sum().backward()  # DDP wants a gradient, if zero, for the token that nobody reads
    assert all(p.grad is not None for p in model.parameters())
    check_operated(model, IMAGES, tmp_path, graph=graph)
    assert_equal(outputs(vs.surgery.undo(model), IMAGES), was)


@pytest.mark.parametrize(
    "case",
    [TORCHVISION[2], HF["hf:vit-sdpa"], HF["hf:deit-sdpa"], HF["hf:dinov2-sdpa"]],
    ids=lambda c: c.name,
)
def test_other_libraries(case: Case) -> None:
    model = case.model()
    was = outputs(model, case.images(2))
    vs.surgery.pool_tokens(model, "drop", example=case.size)
    units = [unit for unit in vs.anatomy(model, case.size) if unit.kind == "msa"]
    assert {unit.prefix_tokens for unit in units} == {0}
    assert not torch.equal(outputs(model, case.images(2))[0], was[0])


@pytest.mark.parametrize("name", ["swin_mini", "mixer_mini", "resnet_mini"])
def test_models_that_pool_already(name: str) -> None:
    with pytest.warns(NoEffectWarning, match="no prefix tokens"):
        vs.surgery.pool_tokens(vs.create_model(name))


def test_a_head_that_pools_beside_a_class_token() -> None:
    with pytest.warns(NoEffectWarning, match="its head reads no class token"):
        vs.surgery.pool_tokens(vit(global_pool="avg"))


@pytest.mark.parametrize(
    "case",
    [
        *(
            Case(f"{name}_mini", partial(vs.create_model, f"{name}_mini"))
            for name in ("pit", "localvit", "pvt")
        ),
        timm_case("xcit_nano_12_p16_224", 32, img_size=32),  # would take the first patch for the class token
        timm_case("eva02_tiny_patch14_224", 56, "rotary", img_size=56, depth=2, global_pool="token"),
        timm_case("beit_base_patch16_224", 32, "bias", img_size=32, depth=2, global_pool="token"),
    ],
    ids=lambda case: case.name,
)
def test_drop_is_refused_where_the_model_counts_on_the_token(case: Case) -> None:
    model, images = case.model(), case.images(2)
    was = outputs(model, images)
    with pytest.raises(CannotOperate, match=r"prefix tokens .* use class_token='keep'"):
        vs.surgery.pool_tokens(model, "drop", example=case.size)
    assert vs.surgery.record(model) == []
    assert_equal(outputs(model, images), was)
    vs.surgery.pool_tokens(model, "keep", example=case.size)
    assert not torch.equal(outputs(model, images)[0], was[0])
