from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from torch import nn

from tests.exams.attention_by_hand import images, swin, vit, vit_attention
from tests.exams.factories import tiny
from vitscope.data import ImageData, batches
from vitscope.errors import VitscopeError
from vitscope.exams.key_maps import normalised
from vitscope.exams.maps import MapsResult, maps
from vitscope.results import Result


def test_heads_of_the_last_layer_on_the_first_images() -> None:
    model, (batch, labels) = vit(), images(6)
    result = maps(model, (batch, labels), count=4, batch_size=3)
    *_, (weights, _) = vit_attention(vit().double(), batch[:4].double())
    assert [u.name for u in result.units] == ["blocks.1.attn"]
    assert result.query == "class token"
    assert result.indices.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(result.maps, weights[:, :, 0, 1:].reshape(4, 3, 4, 4), rtol=1e-3, atol=1e-6)
    assert result.rollout.shape == (4, 4, 4)
    assert result.images.shape == (4, 3, 32, 32)
    assert result.images.min() == 0
    assert result.images.max() == 255


def test_images_are_those_of_the_seeded_order(fashion: ImageData, small_vit: nn.Module) -> None:
    result = maps(small_vit, fashion, count=3, seed=5)
    first = next(iter(batches(fashion, small_vit, batch_size=3, seed=5)))
    assert result.indices.tolist() == first[2].tolist()
    again = maps(small_vit, fashion, count=3, seed=5)
    np.testing.assert_array_equal(again.maps, result.maps)
    assert maps(small_vit, fashion, count=3, seed=6).indices.tolist() != result.indices.tolist()


def test_the_area_of_the_table_is_counted() -> None:
    result = maps(vit(), images(5), count=5)
    table = result.table().set_index(["quantity", "head"])
    marked = (normalised(result.maps[:, 1]) >= 0.5).mean((1, 2))
    assert table.loc[("area", "1"), "value"] == pytest.approx(marked.mean())
    half = 2.776445105 * marked.std(ddof=1) / np.sqrt(5)
    assert table.loc[("area", "1"), "high"] == pytest.approx(marked.mean() + half)
    assert table.loc[("highest", "0"), "value"] == pytest.approx(
        result.maps[:, 0].max((1, 2)).mean(), rel=1e-6
    )
    assert result.summary()["quantity"].tolist() == ["area", "highest"]


def test_a_layer_can_be_named_and_a_windowed_one_has_a_whole_map() -> None:
    result = maps(swin(), images(2), count=2, unit="layers.0.blocks.1.attn")
    assert result.maps.shape == (2, 2, 8, 8)
    assert result.query == "mean of all queries"
    assert result.rollout_units == ("layers.0.blocks.0.attn", "layers.0.blocks.1.attn")
    np.testing.assert_allclose(result.maps.sum((2, 3)), 1, rtol=1e-5)


def test_pooled_keys_give_a_coarser_map() -> None:
    model = timm.create_model("pvt_v2_b0")
    data = (torch.randn(2, 3, 64, 64), torch.zeros(2, dtype=torch.long))
    result = maps(model, data, unit="stages.0.blocks.0.attn")
    assert result.maps.shape == (2, 1, 2, 2)
    assert result.rollout.shape == (2, 16, 16)


def test_a_unit_without_a_map_is_refused() -> None:
    with pytest.raises(VitscopeError, match=r"'blocks\.0\.mlp' has no attention map: it does not attend"):
        maps(vit(), images(2), unit="blocks.0.mlp")
    with pytest.raises(VitscopeError, match="count is 0; expected at least 1"):
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
    np.testing.assert_array_equal(back.maps, result.maps)
    np.testing.assert_array_equal(back.images, result.images)


def test_nothing_is_left_behind() -> None:
    model = vit().train()
    maps(model, images(2))
    assert model.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
