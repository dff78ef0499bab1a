"""The two trained 32-pixel models: sizes, registration in timm, the shipped weights and what their cards claim."""

import json
import re

import pytest
import timm
import torch

import vitscope.models.zoo.small as small
from vitscope.data import load_data
from vitscope.models import BadWeights, create_model
from vitscope.models.input_configs import FASHION_CLASSES
from vitscope.training import evaluate

TRAINED = ("resnet_mini", "vit_mini", "alternet_mini")
ACCURACY_AT_LEAST = 0.85


def test_similar_in_size() -> None:
    sizes = [sum(p.numel() for p in create_model(name).parameters()) for name in TRAINED]
    assert max(sizes) / min(sizes) < 1.1


def test_vit_parameters_add_up() -> None:
    width, depth, tokens, patch = 96, 6, 64, 4
    block = 4 * width * width + 4 * width + 8 * width * width + 5 * width + 4 * width
    embedding = 3 * patch * patch * width + width + (tokens + 1) * width + width
    expected = embedding + depth * block + 2 * width + 10 * width + 10
    assert sum(p.numel() for p in create_model("vit_mini").parameters()) == expected


def test_resnet_keeps_the_resolution_in_its_stem() -> None:
    model = create_model("resnet_mini").eval()
    images = torch.randn(2, 3, 32, 32)
    stem = model.maxpool(model.act1(model.bn1(model.conv1(images))))
    assert stem.shape == (2, 16, 32, 32)
    assert model.forward_features(images).shape == (2, 128, 4, 4)


@pytest.mark.parametrize("name", TRAINED)
def test_features_are_as_large_as_timm_is_told(name: str) -> None:
    model = timm.create_model(name, features_only=True, out_indices=(1, 2, 3)).eval()
    maps = model(torch.randn(1, 3, 32, 32))
    assert [32 // m.shape[-1] for m in maps] == model.feature_info.reduction()
    assert [m.shape[1] for m in maps] == model.feature_info.channels()


@pytest.mark.parametrize("name", TRAINED)
def test_timm_finds_them(name: str) -> None:
    assert name in timm.list_models("*_mini")
    assert f"{name}.fashion" in timm.list_models("*_mini", pretrained=True)


@pytest.mark.parametrize("name", TRAINED)
def test_shipped_weights_reach_what_the_card_says(name: str) -> None:
    score = evaluate(create_model(name, pretrained=True), load_data("fashion", split="test"))
    card = (small.WEIGHTS / name / "CARD.md").read_text()
    claimed = float(re.search(r"accuracy \| \**([\d.]+) %", card)[1])  # type: ignore[index]
    assert score.n == 2000
    assert score.accuracy >= ACCURACY_AT_LEAST
    assert 100 * score.accuracy == pytest.approx(claimed, abs=0.1)  # 2 of 2,000 images


@pytest.mark.parametrize("name", TRAINED)
def test_shipped_folder_is_a_run_folder(name: str) -> None:
    folder = small.WEIGHTS / name
    by_name, by_folder = create_model(name, pretrained=True).eval(), create_model(folder).eval()
    images = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(by_name(images), by_folder(images), rtol=0, atol=0)
    assert (folder / "model.safetensors").stat().st_size <= 4_000_000
    assert tuple(json.loads((folder / "config.json").read_text())["classes"]) == FASHION_CLASSES


@pytest.mark.parametrize("name", TRAINED)
def test_new_head_on_shipped_weights(name: str) -> None:
    trained, other = create_model(name, pretrained=True), create_model(name, pretrained=True, num_classes=7)
    assert other(torch.randn(2, 3, 32, 32)).shape == (2, 7)
    stem = {"vit_mini": "patch_embed.proj.weight", "resnet_mini": "conv1.weight"}.get(
        name, "stem.conv.weight"
    )
    assert torch.equal(other.state_dict()[stem], trained.state_dict()[stem])


def test_shipped_vit_at_another_size_keeps_its_skill() -> None:
    """Position embeddings are resized by timm; at 40 pixels the model must still know most images."""
    model = create_model("vit_mini", pretrained=True, img_size=40)
    data = load_data("fashion", split="test", fraction=0.1)
    assert evaluate(model, data).accuracy > 0.5


def test_the_others_come_without_weights() -> None:
    with pytest.raises(
        BadWeights, match="no pretrained weights for swin_mini: it has none; for random ones add"
    ):
        create_model("swin_mini", pretrained=True)
