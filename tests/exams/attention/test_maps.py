from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from tests.exams.attention_by_hand import images, swin, vit, vit_attention
from tests.exams.factories import tiny
from vitscope.core.errors import VitscopeError
from vitscope.data import ImageData, batches
from vitscope.exams.attention.maps import COUNT, maps
from vitscope.findings.maps import MapsResult
from vitscope.results import Result


def expected_table(model: VisionTransformer, images: Tensor, _: Tensor) -> dict[tuple[str, str], np.ndarray]:
    layers = [weights.numpy() for weights, _ in vit_attention(model, images[:COUNT].double())]
    heads = [weights[:, :, 0, 1:] for weights in layers]
    first, second = ((weights.mean(1) + np.eye(17)) / 2 for weights in layers)
    heads[1] = np.concatenate([heads[1], (second @ first)[:, :1, 1:]], 1)  # the rollout stands after the last
    found = {}
    for i, looked in enumerate(heads):  # (images, heads, points)
        least, most = looked.min(2, keepdims=True), looked.max(2, keepdims=True)
        found["area", f"blocks.{i}.attn"] = (looked >= (least + most) / 2).mean((0, 2))
        found["highest", f"blocks.{i}.attn"] = most.mean((0, 2))
    return found


def test_heads_of_every_layer_on_the_first_images() -> None:
    model, (batch, labels) = vit(depth=3), images(6)
    result = maps(model, (batch, labels), count=4, batch_size=3)
    by_hand = [
        weights[:, :, 0, 1:].reshape(4, 3, 4, 4).numpy()
        for weights, _ in vit_attention(vit(depth=3).double(), batch[:4].double())
    ]
    assert [u.name for u in result.units] == [f"blocks.{i}.attn" for i in range(3)]
    assert result.indices.tolist() == [0, 1, 2, 3]
    for layer, expected in zip(result.layers, by_hand, strict=True):
        assert layer.query == "class token"
        step = (expected.max((2, 3)) - expected.min((2, 3)))[..., None, None] / 510
        assert (np.abs(layer.attention - expected) <= 1.01 * step + 1e-6).all()
        np.testing.assert_allclose(layer.highest, expected.max((2, 3)), rtol=1e-3)
    assert result.rollout is not None
    assert result.rollout.steps.shape == (4, 1, 4, 4)
    shown = result.images.array
    assert shown.shape == (4, 3, 32, 32)
    assert (shown.min(), shown.max()) == (0, 255)


def test_the_rollout_is_the_product_of_the_layers() -> None:
    model, (batch, labels) = vit(depth=3), images(2)
    result = maps(model, (batch, labels))
    total = np.eye(17)[None]
    for weights, _ in vit_attention(vit(depth=3).double(), batch.double()):
        total = (weights.mean(1).numpy() + np.eye(17)) / 2 @ total
    assert result.rollout is not None
    expected = total[:, 0, 1:].reshape(2, 4, 4)
    np.testing.assert_allclose(result.rollout.highest[:, 0], expected.max((1, 2)), rtol=1e-3)
    np.testing.assert_allclose(result.rollout.attention[:, 0], expected, atol=expected.max() / 400)


def test_images_are_those_of_the_seeded_order(fashion: ImageData, small_vit: nn.Module) -> None:
    result = maps(small_vit, fashion, count=3, seed=5)
    first = next(iter(batches(fashion, small_vit, batch_size=3, seed=5)))
    assert result.indices.tolist() == first[2].tolist()
    again = maps(small_vit, fashion, count=3, seed=5)
    assert [layer.steps for layer in again.layers] == [layer.steps for layer in result.layers]
    assert maps(small_vit, fashion, count=3, seed=6).indices.tolist() != result.indices.tolist()


def test_the_area_of_the_table_is_counted() -> None:
    batch, labels = images(5)
    result = maps(vit(), (batch, labels), count=5)
    table = result.table().set_index(["unit", "quantity", "head"])
    assert len(table) == 2 * (2 * 3 + 1)
    first, _ = [w for w, _ in vit_attention(vit().double(), batch.double())]
    looked = first[:, 1, 0, 1:].numpy()
    low, high = looked.min(1, keepdims=True), looked.max(1, keepdims=True)
    marked = ((looked - low) / (high - low) >= 0.5).mean(1)
    assert table.loc[("blocks.0.attn", "area", "1"), "value"] == pytest.approx(marked.mean())
    half = 2.776445105 * marked.std(ddof=1) / np.sqrt(5)
    assert table.loc[("blocks.0.attn", "area", "1"), "high"] == pytest.approx(marked.mean() + half)
    assert table.loc[("blocks.0.attn", "highest", "1"), "value"] == pytest.approx(high.mean(), rel=1e-3)
    # not "area": that is of heads, and the unit that the rollout ends with has another one
    assert result.summary()["quantity"].tolist() == ["rollout area", "rollout highest"]


def test_layers_of_several_sizes_and_windows_give_whole_maps() -> None:
    result = maps(swin(), images(2), count=2)
    assert [layer.steps.shape for layer in result.layers] == [(2, 2, 8, 8), (2, 2, 8, 8), (2, 3, 4, 4)]
    assert {layer.query for layer in result.layers} == {"mean of all queries"}
    for layer in result.layers:
        np.testing.assert_allclose(layer.attention.sum((2, 3)), 1, rtol=0.02)
    assert result.rollout_units == ("layers.1.blocks.0.attn",)


def test_the_last_layer_can_be_named() -> None:
    result = maps(swin(), images(2), count=2, unit="layers.0.blocks.1.attn")
    assert [u.name for u in result.units] == ["layers.0.blocks.0.attn", "layers.0.blocks.1.attn"]
    assert result.rollout_units == ("layers.0.blocks.0.attn", "layers.0.blocks.1.attn")
    assert result.layer("layers.0.blocks.0.attn") is result.layers[0]
    with pytest.raises(VitscopeError, match=r"there are: layers\.0\.blocks\.0\.attn, layers"):
        result.layer("head")


def test_pooled_keys_give_a_coarser_map() -> None:
    model = timm.create_model("pvt_v2_b0")
    data = (torch.randn(2, 3, 64, 64), torch.zeros(2, dtype=torch.long))
    result = maps(model, data, unit="stages.0.blocks.0.attn")
    assert result.layers[0].steps.shape == (2, 1, 2, 2)
    assert result.rollout is not None
    assert result.rollout.steps.shape == (2, 1, 16, 16)


def test_a_unit_without_a_map_is_refused() -> None:
    with pytest.raises(VitscopeError, match=r"'blocks\.0\.mlp' has no attention map: it does not attend"):
        maps(vit(), images(2), unit="blocks.0.mlp")
    with pytest.raises(VitscopeError, match="count is 0; expected a whole number, 1 or more"):
        maps(vit(), images(2), count=0)


def test_no_attention_and_disk(tmp_path: Path) -> None:
    empty = maps(tiny(), (torch.randn(2, 3, 32, 32), torch.zeros(2, dtype=torch.long)))
    assert len(empty.table()) == len(empty.summary()) == 0
    empty.save(tmp_path / "empty")
    assert Result.load(tmp_path / "empty").n == 2
    result = maps(vit(), images(2))
    result.save(tmp_path / "some")
    back = Result.load(tmp_path / "some")
    assert isinstance(back, MapsResult)
    assert back.table().equals(result.table())
    np.testing.assert_array_equal(back.layers[1].attention, result.layers[1].attention)
    np.testing.assert_array_equal(back.images.array, result.images.array)
    values = sum(layer.steps.array.size for layer in result.layers) + result.images.array.size
    assert (tmp_path / "some" / "result.json").stat().st_size < 2 * values + 6000


def test_nothing_is_left_behind() -> None:
    model = vit().train()
    maps(model, images(2))
    assert model.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
