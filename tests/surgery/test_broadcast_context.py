"""Context Broadcasting against float64 references, on many families."""

import pytest
import timm
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.cases import AT_32, HUGGING_FACE, TORCHVISION, Case, one_in, timm_case
from tests.surgery.checks import assert_close, assert_equal, check_operated, outputs
from vitscope.surgery import CannotOperate, NoEffectWarning
from vitscope.surgery.broadcast_context import ContextBroadcast
from vitscope.surgery.tools.image_tokens import ImageTokens

KINDS = ["cb", "cb_s", "cb_gate", "cb_hybrid"]
IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


SHALLOW = {
    "vit_mini": {"depth": 2},
    "mixer_mini": {"num_blocks": 2},
}


def mini(name: str) -> Case:
    return Case(name, lambda: vs.create_model(name, **SHALLOW.get(name, {})))


def obvious(kind: str, image: Tensor, scale: Tensor) -> Tensor:
    """The definitions, token by token; image is (N, d)."""
    mean = sum(image) / len(image)
    cb = [(x + mean) / 2 for x in image]
    rows = {
        "cb": cb,
        "cb_s": [x + scale * mean for x in image],
        "cb_gate": [x * (image[0] + 1) for x in image],
        "cb_hybrid": [x * image[0] + c for x, c in zip(image, cb, strict=True)],
    }
    return torch.stack(rows[kind])


def step_of(kind: str, tokens: ImageTokens, channels: int, **options) -> ContextBroadcast:
    step = ContextBroadcast(kind, tokens, channels, **options).double()
    if step.scale is not None:
        nn.init.normal_(step.scale, generator=torch.Generator().manual_seed(2))
    return step


@pytest.mark.parametrize("kind", KINDS)
def test_formula(kind: str) -> None:
    step = step_of(kind, ImageTokens(3, 2), 4)
    x = torch.randn(3, 7, 4, dtype=torch.float64, requires_grad=True)
    scale = step.scale if step.scale is not None else torch.zeros(4, dtype=torch.float64)
    torch.testing.assert_close(step(x), torch.stack([obvious(kind, image, scale) for image in x]))
    assert torch.autograd.gradcheck(step, x)
    parameters = list(step.parameters())
    assert [p.numel() for p in parameters] == ([4] if kind == "cb_s" else [])
    if parameters:
        assert torch.autograd.gradcheck(
            lambda s: torch.func.functional_call(step, {"scale": s}, (x.detach(),)), parameters[0]
        )


@pytest.mark.parametrize("kind", ["cb", "cb_s"])
@pytest.mark.parametrize("tokens", [ImageTokens(4, 1), ImageTokens(4, 3), ImageTokens(3, 2, 0, 2)], ids=str)
def test_formula_in_other_layouts(kind: str, tokens: ImageTokens) -> None:
    """Of a map, and of windows: the mean is that of the whole image."""
    step = step_of(kind, tokens, 4)
    x = (
        torch.randn(4, 4, 4, 4, dtype=torch.float64)
        if tokens.dimensions == 4
        else torch.randn(4, 4, 4).double()
    )
    scale = step.scale if step.scale is not None else torch.zeros(4, dtype=torch.float64)
    wanted = torch.stack([obvious(kind, image, scale) for image in tokens.read(x)])
    torch.testing.assert_close(tokens.read(step(x)), wanted)


def test_cb_is_a_half_uniform_attention() -> None:
    tokens = torch.randn(9, 5, dtype=torch.float64)
    ones = torch.ones(9, 9, dtype=torch.float64)
    uniform = (torch.eye(9, dtype=torch.float64) + ones / 9) / 2
    torch.testing.assert_close(uniform.sum(1), torch.ones(9, dtype=torch.float64))
    torch.testing.assert_close(step_of("cb", ImageTokens(3, 2), 5)(tokens[None])[0], uniform @ tokens)


def test_in_a_model_it_is_the_uniform_attention_matrix_after_the_mlp() -> None:
    model, reference = (
        timm_case("vit_tiny_patch16_224", 32, img_size=32, depth=2).model().double() for _ in "ab"
    )
    vs.surgery.broadcast_context(model, layers="all")
    x = reference.norm_pre(reference.patch_drop(reference._pos_embed(reference.patch_embed(IMAGES.double()))))
    count = x.shape[1]
    uniform = (torch.eye(count) + torch.ones(count, count) / count).double() / 2
    for block in reference.blocks:
        x = x + block.attn(block.norm1(x))
        x = x + uniform @ block.mlp(block.norm2(x))
    wanted = reference.head(reference.norm(x)[:, 0])
    torch.testing.assert_close(outputs(model, IMAGES.double())[0], wanted)


@pytest.mark.parametrize(
    ("case", "where"),
    [
        (mini("vit_mini"), "mlp"),
        (mini("vit_mini"), "both"),
        (mini("swin_mini"), "both"),  # its attention is in windows
        (mini("mixer_mini"), "mlp"),
        (TORCHVISION[3], "mlp"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_mid_and_end_are_the_same(case: Case, where: str) -> None:
    """Nothing but a linear map is between them, and every row of the uniform attention sums to one."""
    images, said = case.images(2).double(), []
    for at in ("mid", "end"):
        model = case.model().double()
        was = outputs(model, images)
        vs.surgery.broadcast_context(model, where=where, at=at, layers="all", example=case.size)
        said.append(outputs(model, images)[0])
    torch.testing.assert_close(said[0], said[1], rtol=1e-11, atol=1e-12)
    assert (said[0] - was[0]).abs().max() > 1e-5


def test_front_is_another_model() -> None:
    said = []
    for at in ("front", "end"):
        model = vs.create_model("vit_mini", pretrained=True)
        vs.surgery.broadcast_context(model, at=at)
        said.append(outputs(model, IMAGES)[0])
    assert (said[0] - said[1]).abs().max() > 1e-4


@pytest.mark.parametrize(("kind", "added"), [("cb", 0), ("cb_s", 6 * 384), ("cb_gate", 0), ("cb_hybrid", 0)])
def test_parameters_added_to_vit_s(kind: str, added: int) -> None:
    with torch.device("meta") if kind in ("cb", "cb_s") else torch.device("cpu"):
        model = timm.create_model("vit_small_patch16_224", img_size=32)
    before = sum(p.numel() for p in model.parameters())
    vs.surgery.broadcast_context(model, kind)
    assert vs.surgery.record(model)[0]["places"] == [f"blocks.{i}.mlp" for i in range(6, 12)]
    assert sum(p.numel() for p in model.parameters()) - before == added


def test_cb_s_starts_as_the_model_and_learns() -> None:
    model = vs.create_model("vit_mini", pretrained=True).eval()
    was = outputs(model, IMAGES)
    vs.surgery.broadcast_context(model, "cb_s", where="both", layers="all")
    assert_equal(outputs(model, IMAGES), was)
    model(IMAGES).pow(2).sum().backward()
    scales = [p for name, p in model.named_parameters() if name.endswith("context_broadcast.scale")]
    assert len(scales) == 12
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in scales)


@pytest.mark.parametrize(
    ("kind", "where", "at", "graph"),
    [
        ("cb", "mlp", "end", False),
        ("cb_s", "both", "mid", True),
        ("cb_hybrid", "mlp", "front", False),
        pytest.param("cb", "mlp", "end", True, marks=pytest.mark.slow),
        pytest.param("cb_hybrid", "mlp", "front", True, marks=pytest.mark.slow),
    ],
)
def test_saved_copied_exported(kind, where, at, graph, tmp_path) -> None:
    model = vs.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, num_classes=10).eval()
    was = outputs(model, IMAGES)
    vs.surgery.broadcast_context(model, kind, where, at)
    for name, parameter in model.named_parameters():
        if name.endswith("scale"):
            nn.init.normal_(parameter)
    assert not torch.equal(outputs(model, IMAGES)[0], was[0])
    check_operated(model, IMAGES, tmp_path, graph=graph)
    assert_equal(outputs(vs.surgery.undo(model), IMAGES), was)


FAMILIES = [
    *(mini(f"{name}_mini") for name in ("pit", "swin", "pvt", "mixer", "localvit", "convit", "twins")),
    timm_case("deit_tiny_distilled_patch16_224", 32, "deit distilled", img_size=32, depth=2),
    next(case for case in AT_32 if case.name == "pvt_v2_b1"),
    *HUGGING_FACE[:6],
]


@pytest.mark.parametrize("case", one_in(2, FAMILIES), ids=lambda case: case.name)
def test_families(case: Case) -> None:
    """The mean token at the end of the last MLP does not change, and the deviations from it halve."""
    model, images = case.model(), case.images(2)
    unit = [u for u in vs.anatomy(model, case.size).of_kind("mlp") if u.residual][-1]
    vs.surgery.broadcast_context(model, layers=[unit.name], example=case.size)
    (entry,) = vs.surgery.record(model)
    assert entry["places"] == [unit.name]
    step = model.get_submodule(entry["grafts"][0])
    seen: list[tuple[Tensor, Tensor]] = []
    step.register_forward_hook(lambda _, given, output: seen.append((given[0], output)))
    outputs(model, images)
    given, output = (step.tokens.read(t) for t in seen[0])
    assert len(given) == 2
    mean = given.mean(1, keepdim=True)
    assert_close([output - mean], [(given - mean) / 2], 1e-5)


def test_a_second_time_it_is_put_after_the_first() -> None:
    model = vs.create_model("vit_mini", pretrained=True)
    once = outputs(vs.surgery.broadcast_context(model), IMAGES)
    twice = outputs(vs.surgery.broadcast_context(model), IMAGES)
    assert not torch.equal(once[0], twice[0])
    assert_equal(outputs(vs.surgery.undo(model), IMAGES), once)


def test_refusals_leave_the_model_alone() -> None:
    swin = vs.create_model("swin_mini")
    with pytest.raises(CannotOperate, match="reads none; use kind='cb' or 'cb_s'"):
        vs.surgery.broadcast_context(swin, "cb_gate")
    pvt = vs.create_model("pvt_mini")  # its class token comes with the last stage
    with pytest.raises(CannotOperate, match=r"class token is not among the tokens of unit 'stages\.2"):
        vs.surgery.broadcast_context(pvt, "cb_gate")
    vs.surgery.broadcast_context(pvt, "cb_gate", layers=["stages.3.blocks.1.mlp"])
    for options, message in (
        ({"tokens": "text"}, "no words were found among the tokens"),
        ({"kind": "cb_gate", "tokens": "image"}, "use tokens='all'|no words"),
        ({"pyramid": ["blocks.5"], "layers": ["blocks.5.mlp"]}, "feeds the pyramid"),
    ):
        vit = vs.create_model("vit_mini")
        with pytest.raises(CannotOperate, match=message):
            vs.surgery.broadcast_context(vit, **options)
        assert vs.surgery.record(vit) == []
    assert vs.surgery.record(swin) == []


def test_pyramid_blocks_are_left_alone(tmp_path) -> None:
    model = vs.create_model("vit_mini", pretrained=True)
    with pytest.warns(UserWarning, match=r"left out of layers='all': blocks\.1\.mlp .*blocks\.5\.mlp"):
        vs.surgery.broadcast_context(model, layers="all", pyramid=["blocks.1", "blocks.3", "blocks.5"])
    assert vs.surgery.record(model)[0]["places"] == [f"blocks.{i}.mlp" for i in (0, 2, 4)]
    check_operated(model, IMAGES, tmp_path, graph=False)


def test_convolutions_have_no_place_for_it() -> None:
    with pytest.warns(NoEffectWarning, match="no mlp unit"):
        vs.surgery.broadcast_context(vs.create_model("resnet_mini"))
