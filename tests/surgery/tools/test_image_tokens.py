"""Tokens of an image in any layout, words among them, and those that the head reads."""

import copy

import pytest
import timm
import torch
import transformers
from torch import Tensor, nn

import vitscope as vs
from tests.cases import HAND_MADE, HUGGING_FACE, Case, timm_case
from vitscope.anatomy import dissect
from vitscope.core.errors import VitscopeError
from vitscope.surgery import CannotOperate
from vitscope.surgery.tools.image_tokens import (
    ImageTokens,
    head_reads,
    image_tokens,
    text_tokens,
    tokens_off_the_grid,
)

N, H, W, C = 3, 4, 6, 5
MAPS = torch.randn(N, H, W, C, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def windows(maps: Tensor) -> Tensor:
    """(N x 6, 4, C): windows of 2x2 points."""
    cut = maps.reshape(N, H // 2, 2, W // 2, 2, C).transpose(2, 3)
    return cut.reshape(-1, 4, C)


LAYOUTS = {
    "NLC": (MAPS.reshape(N, H * W, C), ImageTokens(3, 2)),
    "NHWC": (MAPS, ImageTokens(4, 3)),
    "NCHW": (MAPS.permute(0, 3, 1, 2), ImageTokens(4, 1)),
    "LNC": (MAPS.reshape(N, H * W, C).transpose(0, 1), ImageTokens(3, 2, batch_axis=1)),
    "CNL": (MAPS.reshape(N, H * W, C).permute(2, 0, 1), ImageTokens(3, 0, batch_axis=1)),
    "windows": (windows(MAPS), ImageTokens(3, 2, parts_per_image=6)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_mean_is_that_of_every_image(layout: str) -> None:
    x, tokens = LAYOUTS[layout]
    wanted = torch.stack([MAPS[i].reshape(-1, C).sum(0) / (H * W) for i in range(N)])
    everywhere = tokens.read(tokens.mean(x).expand_as(x))
    assert everywhere.shape == (N, H * W, C)
    torch.testing.assert_close(everywhere, wanted[:, None].expand(N, H * W, C))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_read_can_be_written_back(layout: str) -> None:
    x, tokens = LAYOUTS[layout]
    read = tokens.read(x)
    for i in range(N):  # the points of one image, in some order
        assert {tuple(row) for row in read[i].tolist()} == {
            tuple(row) for row in MAPS[i].reshape(-1, C).tolist()
        }
    assert torch.equal(tokens.write(read, like=x), x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_vector_runs_along_the_channels(layout: str) -> None:
    x, tokens = LAYOUTS[layout]
    vector = torch.arange(C, dtype=torch.float64)
    assert torch.equal(tokens.read(x * tokens.along_channels(vector)), tokens.read(x) * vector)


@pytest.mark.parametrize(
    ("name", "wanted", "off_the_grid"),
    [
        ("vit_mini", ImageTokens(3, 2), 1),
        ("swin_mini", ImageTokens(3, 2), 0),
        ("resnet_mini", ImageTokens(4, 1), 0),
    ],
)
def test_layout_is_that_of_the_watched_tensor(name: str, wanted: ImageTokens, off_the_grid: int) -> None:
    body = dissect(vs.create_model(name))
    last = body.segment([unit for unit in body.parts if unit.residual][-1]).end
    assert image_tokens(body, last) == wanted
    assert tokens_off_the_grid(body, last) == off_the_grid


def test_pooled_tensors_have_no_tokens() -> None:
    body = dissect(vs.create_model("vit_mini"))
    assert image_tokens(body, body.graph.outputs[0]) is None
    assert tokens_off_the_grid(body, body.graph.outputs[0]) == 0


WORDS, PATCHES = 9, 16
INPUTS = {
    "input_ids": torch.randint(3, 50, (2, WORDS), generator=torch.Generator().manual_seed(0)),
    "pixel_values": torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1)),
}


def vilt(cls=transformers.ViltForQuestionAnswering) -> nn.Module:
    torch.manual_seed(0)
    config = transformers.ViltConfig(
        hidden_size=48, num_hidden_layers=4, num_attention_heads=3, intermediate_size=96, image_size=64,
        patch_size=16, vocab_size=50, max_position_embeddings=12, num_labels=7, max_image_length=-1,
    )  # fmt: skip
    return cls(config).eval()


def said(model: nn.Module, **changes) -> torch.Tensor:
    torch.manual_seed(0)  # it draws the order of its patches
    with torch.no_grad():
        output = model(**{**INPUTS, **changes})
    return output.logits if hasattr(output, "logits") else output.last_hidden_state


def at_the_last_mlp(model: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """What goes into the last broadcast and what comes out of it."""
    path = [p for p in vs.surgery.record(model)[0]["grafts"] if p.endswith("context_broadcast")][-1]
    seen = []
    hook = model.get_submodule(path).register_forward_hook(
        lambda _, given, output: seen.append((given[0], output))
    )
    said(model)
    hook.remove()
    return seen[0]


@pytest.mark.parametrize("cls", [transformers.ViltModel, transformers.ViltForQuestionAnswering])
def test_anatomy_of_a_model_with_two_inputs(cls) -> None:
    parts = vs.anatomy(vilt(cls), INPUTS)
    assert [unit.kind for unit in parts if unit.residual] == ["msa", "mlp"] * 4


def test_the_words_stand_first() -> None:
    model = vilt()
    found = text_tokens(dissect(model, INPUTS), model, INPUTS)
    assert (found.name, found.first, found.length) == ("input_ids", 0, WORDS)


@pytest.mark.parametrize(
    ("tokens", "among"),
    [("all", slice(0, None)), ("text", slice(0, WORDS)), ("image", slice(WORDS, None))],
)
def test_cb_among(tokens: str, among: slice) -> None:
    model = vilt()
    vs.surgery.broadcast_context(model, tokens=tokens, example=INPUTS)
    given, output = at_the_last_mlp(model)
    assert given.shape == (2, WORDS + 1 + PATCHES, 48)
    wanted = given.clone()
    part = given[:, among]
    wanted[:, among] = (part + part.sum(1, keepdim=True) / part.shape[1]) / 2
    torch.testing.assert_close(output, wanted)


@pytest.mark.parametrize("tokens", ["text", "image"])
def test_cb_s_learns_and_comes_back(tokens: str) -> None:
    model = vilt()
    was = said(model)
    vs.surgery.broadcast_context(model, "cb_s", tokens=tokens, layers="all", example=INPUTS)
    assert torch.equal(said(model), was)
    model(**INPUTS).logits.pow(2).sum().backward()
    scales = {name: p for name, p in model.named_parameters() if name.endswith("scale")}
    assert [p.numel() for p in scales.values()] == [48] * 4
    # the head reads a word, which what the last MLP gives to the patches does not reach
    silent = [name for name, p in scales.items() if p.grad is None or not p.grad.abs().max() > 0]
    assert silent == ([list(scales)[-1]] if tokens == "image" else [])
    for parameter in scales.values():
        nn.init.normal_(parameter)
    again = vs.surgery.replay(vilt(), vs.surgery.record(model))
    again.load_state_dict(model.state_dict())
    assert torch.equal(said(again), said(model))
    assert torch.equal(said(copy.deepcopy(model)), said(model))
    assert not torch.equal(said(model), was)
    assert torch.equal(said(vs.surgery.undo(model)), was)


def test_texts_of_another_length_are_refused_where_it_matters() -> None:
    shorter = INPUTS["input_ids"][:, :7]
    model = vilt()
    vs.surgery.broadcast_context(model, tokens="all", example=INPUTS)
    assert said(model, input_ids=shorter).isfinite().all()
    vs.surgery.broadcast_context(model, tokens="text", example=INPUTS)
    with pytest.raises(VitscopeError, match="input_ids has 7 words, but context is broadcast among 9; pad"):
        said(model, input_ids=shorter)


def test_without_text_there_are_no_words() -> None:
    model = vs.create_model("vit_mini")
    with pytest.raises(CannotOperate, match="the model's inputs as example="):
        text_tokens(dissect(model), model, None)


SMALL = {"img_size": 32, "patch_size": 8, "depth": 2}
HF = {case.name: case for case in HUGGING_FACE}


@pytest.mark.parametrize(
    ("case", "read", "patches"),
    [
        (timm_case("vit_tiny_patch16_224", 32, **SMALL), (0,), False),
        (timm_case("vit_tiny_patch16_224", 32, **SMALL, global_pool="avg"), (), True),
        (timm_case("vit_tiny_patch16_224", 32, **SMALL, global_pool="map"), (), True),
        (timm_case("deit_tiny_distilled_patch16_224", 32, **SMALL), (0, 1), False),
        (timm_case("vit_tiny_patch16_224", 32, **SMALL, reg_tokens=2), (0,), False),
        (HF["hf:dinov2-sdpa"], (0,), True),  # class token beside the mean of the others
    ],
)
def test_tokens_read(case: Case, read: tuple[int, ...], patches: bool) -> None:
    model = case.model()
    readout = head_reads(dissect(model, case.size), model, case.size)
    assert readout is not None
    assert (readout.read, readout.reads_patches) == (read, patches)


def test_weights_that_are_zero_do_not_hide_it() -> None:
    model = timm.create_model("vit_tiny_patch16_224", **SMALL)
    torch.nn.init.zeros_(model.head.weight)
    readout = head_reads(dissect(model), model)
    assert readout is not None
    assert readout.read == (0,)


def test_none_where_the_stream_has_no_prefix_tokens() -> None:
    model = HAND_MADE.model()
    assert head_reads(dissect(model, HAND_MADE.size), model, HAND_MADE.size) is None


def test_it_needs_weights() -> None:
    with torch.device("meta"):
        model = vs.create_model("vit_mini")
    with pytest.raises(CannotOperate, match="build the model with weights"):
        head_reads(dissect(model), model)
