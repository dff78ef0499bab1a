"""PVT: the published size, and the same numbers as Hugging Face's implementation."""

import pytest
import timm
import torch
import transformers
from torch import Tensor

from vitscope.models import create_model
from vitscope.models.zoo.pvt import PyramidVisionTransformer, first_patch

SMALL = dict(embed_dims=(8, 16, 24, 32), depths=(1, 2, 1, 2), num_heads=(1, 2, 3, 4), mlp_ratios=(8, 8, 4, 4))


def test_published_size() -> None:
    with torch.device("meta"):
        model = create_model("pvt_small")
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == 24.5


def hugging_face_name(name: str) -> str:
    """The name of a parameter of ours in Hugging Face's model; keys and values are one matrix here."""
    name = name.replace("stages.", "", 1) if name.startswith("stages.") else f"pvt.encoder.{name}"
    for ours, theirs in {
        "pvt.encoder.head": "classifier",
        "pvt.encoder.norm": "pvt.encoder.layer_norm",
        "embed.proj": "embed.projection",
        "embed.norm": "embed.layer_norm",
        "pos_embed": "embed.position_embeddings",
        "cls_token": "embed.cls_token",
        "attn.q": "attention.self.query",
        "attn.kv": "attention.self.key",
        "attn.sr": "attention.self.sequence_reduction",
        "attn.norm": "attention.self.layer_norm",
        "attn.proj": "attention.output.dense",
        "mlp.fc1": "mlp.dense1",
        "mlp.fc2": "mlp.dense2",
        "norm1": "layer_norm_1",
        "norm2": "layer_norm_2",
    }.items():
        name = name.replace(ours, theirs)
    stage, _, rest = name.partition(".")
    if not stage.isdigit():
        return name
    if rest.startswith("embed."):
        return f"pvt.encoder.patch_embeddings.{stage}.{rest.removeprefix('embed.')}"
    return f"pvt.encoder.block.{stage}.{rest.removeprefix('blocks.')}"


def test_same_logits_as_hugging_face() -> None:
    torch.manual_seed(0)
    ours = PyramidVisionTransformer(img_size=64, patch_size=4, num_classes=5, **SMALL).eval()
    for parameter in ours.parameters():  # biases and norms too
        torch.nn.init.normal_(parameter, std=0.2)
    config = transformers.PvtConfig(
        image_size=64,
        patch_sizes=[4, 2, 2, 2],
        hidden_sizes=list(SMALL["embed_dims"]),
        depths=list(SMALL["depths"]),
        num_attention_heads=list(SMALL["num_heads"]),
        mlp_ratios=list(SMALL["mlp_ratios"]),
        sequence_reduction_ratios=[8, 4, 2, 1],
    )
    config.num_labels = 5
    theirs = transformers.PvtForImageClassification(config).eval()
    weights: dict[str, Tensor] = {}
    for name, tensor in ours.state_dict().items():
        if ".attn.kv." in name:
            key = hugging_face_name(name)
            weights[key], weights[key.replace(".key.", ".value.")] = tensor.chunk(2)
        else:
            weights[hugging_face_name(name)] = tensor
    theirs.load_state_dict(weights)
    # theirs has one epsilon for all layer norms, the published model (and ours) two
    for module in theirs.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6
    for stage in ours.stages:
        stage.embed.norm.eps = 1e-6
        for block in stage.blocks:
            if block.attn.norm is not None:
                block.attn.norm.eps = 1e-6
    images = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(
            ours.double()(images), theirs.double()(images).logits, rtol=1e-9, atol=1e-9
        )


def test_epsilons_are_the_published_ones() -> None:
    with torch.device("meta"):
        model = create_model("pvt_mini")
    stage = model.stages[0]
    assert (stage.embed.norm.eps, stage.blocks[0].attn.norm.eps) == (1e-5, 1e-5)
    assert (stage.blocks[0].norm1.eps, stage.blocks[0].norm2.eps, model.norm.eps) == (1e-6, 1e-6, 1e-6)


@pytest.mark.parametrize(("pixels", "patch", "last"), [(32, 1, 4), (64, 2, 4), (96, 4, 3), (224, 4, 7)])
def test_small_images_get_small_patches(pixels: int, patch: int, last: int) -> None:
    assert first_patch(pixels) == patch
    with torch.device("meta"):
        model = create_model("pvt_small", img_size=pixels, num_classes=10)
        tokens = model.forward_features(torch.empty(2, 3, pixels, pixels))
    assert model.patch_embed.patch_size == (patch, patch)
    assert tokens.shape == (2, 1 + last * last, 512)


def test_oblong_images() -> None:
    model = create_model("pvt_mini", img_size=(32, 64), patch_size=2, num_classes=3).eval()
    maps = model.forward_intermediates(torch.randn(1, 3, 32, 64), intermediates_only=True)
    assert [tuple(m.shape[2:]) for m in maps] == [(16, 32), (8, 16), (4, 8), (2, 4)]
    assert model(torch.randn(1, 3, 32, 64)).shape == (1, 3)


def test_intermediate_maps() -> None:
    torch.manual_seed(0)
    model = create_model("pvt_mini").eval()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        tokens, maps = model.forward_intermediates(images, indices=[1, -1], norm=True)
        early, last = model.forward_intermediates(images, indices=[1], stop_early=True)
        assert torch.equal(tokens, model.forward_features(images))
        assert torch.equal(maps[1].flatten(2).transpose(1, 2), tokens[:, 1:])
        assert torch.equal(maps[0], last[0])
        assert early.shape == (2, 16 * 16, 32)
    with pytest.raises(ValueError, match="come as NCHW, not as NLC"):
        model.forward_intermediates(images, output_fmt="NLC")


def test_new_head() -> None:
    model = timm.create_model("pvt_mini")
    model.reset_classifier(3)
    assert model(torch.randn(1, 3, 32, 32)).shape == (1, 3)
    model.reset_classifier(0)
    assert model(torch.randn(1, 3, 32, 32)).shape == (1, 128)
    assert model.no_weight_decay() == {"stages.3.cls_token"}
