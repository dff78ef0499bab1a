"""ViLT and its words: what transformers says of the same weights, and a folder that keeps the vocabulary."""

import copy
import json
from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor, nn

import vitscope as vs
from vitscope.core.errors import VitscopeError
from vitscope.models import save_model
from vitscope.models.dense.words import Words
from vitscope.models.errors import CannotBuild, UnknownArgument
from vitscope.recipes.named import get_recipe
from vitscope.training.setup import find_model

QUESTIONS = ["Is there a circle?", "What color is the square?", "is the CIRCLE green?"]
WORDS = Words.of(QUESTIONS[:2], length=9)


def vilt(**changes) -> nn.Module:
    torch.manual_seed(0)
    given = {"num_classes": 5, "vocabulary": WORDS.vocabulary, "question_length": 9, "num_hidden_layers": 2}
    return vs.create_model("vilt_mini", **{**given, **changes}).eval()


def asked(count: int = 2, side: int = 64) -> dict[str, Tensor]:
    images = torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(1))
    return {"pixel_values": images, **WORDS(QUESTIONS[-count:])}


def test_words() -> None:
    assert WORDS.vocabulary == ("?", "is", "a", "circle", "color", "square", "the", "there", "what")
    numbers = WORDS(["Is there a circle?", "What?  Green!", "is " * 20])
    assert numbers["input_ids"].tolist() == [
        [2, 5, 11, 6, 7, 4, 3, 0, 0],
        [2, 12, 4, 1, 1, 3, 0, 0, 0],
        [2, 5, 5, 5, 5, 5, 5, 5, 3],
    ]
    assert numbers["attention_mask"].sum(1).tolist() == [7, 6, 9]
    assert WORDS.unknown("Is the circle green!") == ["green", "!"]
    assert WORDS.size == 13


@pytest.mark.parametrize("side", [64, 48])
def test_the_answers_are_those_of_transformers(side: int) -> None:
    """Which draws an order of the patches; sums of 64 numbers in another order differ in their last digits."""
    model, inputs = vilt().double(), asked(side=side)
    inputs["pixel_values"] = inputs["pixel_values"].double()
    theirs = transformers.ViltForQuestionAnswering(model.config).double().eval()
    theirs.load_state_dict(model.state_dict())
    with torch.no_grad():
        seen = model(inputs)
        torch.testing.assert_close(seen, theirs(**inputs).logits, rtol=1e-6, atol=1e-7)
        assert torch.equal(model(**inputs), seen)
        assert torch.equal(copy.deepcopy(model)(inputs), seen)
    assert seen.shape == (2, 5)


def test_images_that_are_padded_are_transformers_own_affair() -> None:
    model, inputs = vilt(), asked()
    inputs["pixel_mask"] = torch.ones(2, 64, 64, dtype=torch.long)
    inputs["pixel_mask"][1, 32:] = 0
    theirs = transformers.ViltForQuestionAnswering(model.config).eval()
    theirs.load_state_dict(model.state_dict())
    said = []
    for one in (model, theirs):
        torch.manual_seed(0)
        with torch.no_grad():
            said.append(one(**inputs))
    assert torch.equal(said[0], said[1].logits)


def test_an_image_alone_is_asked_nothing() -> None:
    model, images = vilt(), asked()["pixel_values"]
    with torch.no_grad():
        assert torch.equal(model(images), model({"pixel_values": images, **WORDS(["", ""])}))
    parts = vs.anatomy(model)
    assert [unit.kind for unit in parts if unit.residual] == ["msa", "mlp"] * 2
    assert {unit.map_shape for unit in parts if unit.residual} == {(96, 8, 8)}
    assert {unit.prefix_tokens for unit in parts if unit.residual} == {10}


def test_a_folder_keeps_the_words(tmp_path: Path) -> None:
    model = vilt()
    save_model(model, tmp_path)
    again = vs.create_model(tmp_path).eval()
    assert again.vitscope_words == WORDS
    assert again.vitscope_task == "vqa"
    with torch.no_grad():
        assert torch.equal(again({**asked(), **again.vitscope_words(QUESTIONS[-2:])}), model(asked()))
    assert json.loads((tmp_path / "config.json").read_text())["model"]["arguments"]["question_length"] == 9


@pytest.mark.parametrize("tokens", ["image", "text", "all"])
def test_context_is_broadcast_among_words_or_patches(tokens: str, tmp_path: Path) -> None:
    model = vilt()
    vs.surgery.broadcast_context(model, "cb", tokens=tokens, layers="all")
    assert len(vs.surgery.record(model)[0]["places"]) == 2
    path = vs.surgery.record(model)[0]["grafts"][0]
    seen = []
    hook = model.get_submodule(path).register_forward_hook(lambda _, given, out: seen.append((given[0], out)))
    with torch.no_grad():
        model(asked())
    hook.remove()
    given, wanted = seen[0][0], seen[0][0].clone()
    among = {"image": slice(9, None), "text": slice(0, 9), "all": slice(0, None)}[tokens]
    wanted[:, among] = (given[:, among] + given[:, among].mean(1, keepdim=True)) / 2
    torch.testing.assert_close(seen[0][1], wanted)
    save_model(model, tmp_path)
    with torch.no_grad():
        assert torch.equal(vs.create_model(tmp_path).eval()(asked()), model(asked()))


def test_all_weights_learn() -> None:
    model = vilt().train()
    model(asked()).pow(2).sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


def test_a_folder_of_hugging_face(tmp_path: Path) -> None:
    model = vilt()
    theirs = transformers.ViltForQuestionAnswering(model.config).eval()
    theirs.load_state_dict(model.state_dict())
    theirs.save_pretrained(tmp_path)
    again = vs.create_model(f"hf:{tmp_path}", pretrained=True).eval()
    assert again.vitscope_task == "vqa"
    assert again.vitscope_words is None  # it brings no tokenizer
    with torch.no_grad():
        assert torch.equal(again(asked()), model(asked()))
    (tmp_path / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "is", "circle"])
    )
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    words = vs.create_model(f"hf:{tmp_path}").vitscope_words
    assert words(["Is circle"])["input_ids"].tolist() == [[2, 5, 6, 3, 0, 0, 0, 0, 0]]
    # for a training: other answers, the weights of the rest; it has no stochastic depth, of which recipes speak
    tuned = find_model(f"hf:{tmp_path}", "abcde", None, get_recipe("vqa"), pretrained=True)
    assert tuned.num_classes == 5
    for name, weights in theirs.vilt.state_dict().items():
        assert torch.equal(tuned.vilt.state_dict()[name], weights)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UnknownArgument, match="takes no argument 'depth'"):
        vilt(depth=3)
    with pytest.raises(CannotBuild, match="square images"):
        vilt(img_size=(64, 32))
    with pytest.raises(VitscopeError, match="it has none"):
        vilt(pretrained=True)
    assert "vilt_mini" in vs.list_models("vilt*")
