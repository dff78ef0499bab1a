"""timm's classes at 32 pixels: stem, sizes as timm's models have them, shipped weights and what their cards claim."""

import json
import re

import pytest
import timm
import torch
from timm.models.resnet import BasicBlock
from torch import nn

from tests.cases import one_in
from vitscope.data import load_data
from vitscope.models import BadWeights, create_model
from vitscope.models.zoo.registration import CIFAR_MEAN, CIFAR_STD, FASHION_CLASSES, WEIGHTS
from vitscope.models.zoo.small import SmallStemResNet
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


def test_heads_of_a_width_of_their_own_attend_as_the_formula_says() -> None:
    """Four heads of 8 channels in an embedding of 24, where each would have 6."""
    torch.manual_seed(0)
    model = create_model("vit_tiny_patch8_32", embed_dim=24, depth=1, num_heads=4, head_dim=8).double().eval()
    attn = model.blocks[0].attn
    tokens = torch.randn(2, 17, 24, dtype=torch.float64)
    query, key, value = attn.qkv(tokens).view(2, 17, 3, 4, 8).unbind(2)
    expected = torch.zeros(2, 17, 4, 8, dtype=torch.float64)
    for head in range(4):
        scores = query[:, :, head] @ key[:, :, head].mT / 8**0.5
        expected[:, :, head] = scores.softmax(-1) @ value[:, :, head]
    torch.testing.assert_close(attn(tokens), attn.proj(expected.flatten(2)))
    assert attn.proj.weight.std() < 0.03  # begins as timm's others do
    assert attn.qkv.bias.abs().max() == 0


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
    card = (WEIGHTS / name / "CARD.md").read_text()
    claimed = float(re.search(r"accuracy \| \**([\d.]+) %", card)[1])  # type: ignore[index]
    assert score.n == 2000
    assert score.accuracy >= ACCURACY_AT_LEAST
    assert 100 * score.accuracy == pytest.approx(claimed, abs=0.1)  # 2 of 2,000 images


@pytest.mark.parametrize("name", TRAINED)
def test_shipped_folder_is_a_run_folder(name: str) -> None:
    folder = WEIGHTS / name
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


def test_stem_keeps_the_resolution() -> None:
    model = SmallStemResNet(block=BasicBlock, layers=(1, 1, 1, 1), channels=(8, 8, 8, 8), in_chans=1).eval()
    images = torch.randn(2, 1, 32, 32)
    assert model.maxpool(model.act1(model.bn1(model.conv1(images)))).shape == (2, 8, 32, 32)
    assert model.forward_features(images).shape == (2, 8, 4, 4)


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("resnet18_32", [32, 32, 16, 8, 4]),
        ("resnext_mini", [32, 32, 16, 8, 4]),
        ("pit_mini", [16, 8, 4]),
        ("twins_mini", [32, 16, 8, 4]),
        ("swin_mini", [32, 16, 8, 4]),
        ("pvt_mini", [32, 16, 8, 4]),
        ("mixer_mini", [8, 8]),
        ("localvit_mini", [8, 8]),
    ],
)
def test_maps_are_as_large_as_timm_is_told(name: str, sides: list[int]) -> None:
    model = timm.create_model(name, features_only=True, out_indices=tuple(range(len(sides)))).eval()
    with torch.no_grad():
        maps = model(torch.randn(1, 3, 32, 32))
    assert [tuple(m.shape[2:]) for m in maps] == [(side, side) for side in sides]
    assert [32 // side for side in sides] == model.feature_info.reduction()
    assert [m.shape[1] for m in maps] == model.feature_info.channels()


TRANSFORMERS = [
    *[(f"vit_tiny_patch{p}_32", "vit_tiny_patch16_224", {"patch_size": p}) for p in (2, 4, 8)],
    *[(f"vit_small_patch{p}_32", "vit_small_patch16_224", {"patch_size": p}) for p in (2, 4, 8)],
    *[(f"vit_base_patch{p}_32", "vit_base_patch16_224", {"patch_size": p}) for p in (2, 4, 8)],
    ("pit_ti_patch2_32", "pit_ti_224", {"patch_size": 2, "stride": 2}),
    ("pit_b_patch2_32", "pit_b_224", {"patch_size": 2, "stride": 2}),
    ("swin_tiny_patch1_window4_32", "swin_tiny_patch4_window7_224", {"patch_size": 1, "window_size": 4}),
    ("twins_svt_small_32", "twins_svt_small", {"patch_size": 1}),
    ("convit_tiny_32", "convit_tiny", {"patch_size": 2}),
]
RESNETS = ["resnet18", "resnet34", "resnet50", "resnet101", "resnext50_32x4d"]


def shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize(("name", "large", "arguments"), TRANSFORMERS)
def test_transformers_are_timms(name: str, large: str, arguments: dict[str, int]) -> None:
    with torch.device("meta"):
        ours, theirs = timm.create_model(name), timm.create_model(large, img_size=32, **arguments)
    assert shapes(ours) == shapes(theirs)
    assert isinstance(ours, type(theirs))


@pytest.mark.parametrize("name", RESNETS)
def test_resnets_are_timms_but_for_the_stem(name: str) -> None:
    with torch.device("meta"):
        ours, theirs = shapes(timm.create_model(f"{name}_32")), shapes(timm.create_model(name))
    assert ours.pop("conv1.weight") == (64, 3, 3, 3)
    assert theirs.pop("conv1.weight") == (64, 3, 7, 7)
    assert ours == theirs


@pytest.mark.parametrize(
    ("name", "large", "times"),
    [("tiny", "mixer_s32_224", 2), ("small", "mixer_s16_224", 1), ("base", "mixer_b16_224", 1)],
)
def test_mixers_are_timms_on_other_tokens_and_the_tiny_one_half_of_mixer_s(
    name: str, large: str, times: int
) -> None:
    with torch.device("meta"):
        ours, theirs = timm.create_model(f"mixer_{name}_patch2_32"), timm.create_model(large)
    assert len(ours.blocks) == len(theirs.blocks)
    block, wide = ours.blocks[0], theirs.blocks[0]
    assert block.mlp_tokens.fc1.in_features == 16 * 16
    assert times * block.mlp_channels.fc1.in_features == wide.mlp_channels.fc1.in_features
    for mlp, other in ((block.mlp_tokens, wide.mlp_tokens), (block.mlp_channels, wide.mlp_channels)):
        assert times * mlp.fc1.out_features == other.fc1.out_features


@pytest.mark.parametrize(
    "name", one_in(2, [*[row[0] for row in TRANSFORMERS], "resnet18_32", "mixer_base_patch2_32"])
)
def test_input_and_classes(name: str) -> None:
    with torch.device("meta"):
        model = create_model(name)
        logits = create_model(name, num_classes=100).eval()(torch.empty(2, 3, 32, 32))
    assert logits.shape == (2, 100)
    config = model.pretrained_cfg
    assert (config["input_size"], config["num_classes"]) == ((3, 32, 32), 1000)
    assert (config["mean"], config["std"]) == (CIFAR_MEAN, CIFAR_STD)


def test_other_sizes() -> None:
    with torch.device("meta"):
        for name in ("vit_tiny_patch4_32", "twins_svt_small_32", "swin_tiny_patch1_window4_32"):
            model = create_model(name, img_size=64, num_classes=5)
            assert model.eval()(torch.empty(1, 3, 64, 64)).shape == (1, 5)
