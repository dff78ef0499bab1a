"""Context among the words or the patches of a vision-language model."""

import copy

import pytest
import torch
import transformers
from torch import nn

import vitscope as vs
from vitscope.anatomy import dissect
from vitscope.core.errors import VitscopeError
from vitscope.surgery import CannotOperate
from vitscope.surgery.tools.image_tokens import text_tokens

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
