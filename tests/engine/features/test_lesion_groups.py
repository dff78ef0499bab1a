import numpy as np
from torch import nn

import vitscope as vs
from vitscope.engine.features.lesion_passes import contrasts, group_weights, positions
from vitscope.results import UnitRow


def test_places_are_thirds_of_a_stage_by_kind(small_vit: nn.Module) -> None:
    place = positions(vs.anatomy(small_vit))
    assert place == {
        "blocks.0.attn": "first",
        "blocks.0.mlp": "first",
        "blocks.1.attn": "last",
        "blocks.1.mlp": "last",
    }
    six = positions(vs.anatomy(vs.create_model("vit_mini")))
    assert [six[f"blocks.{i}.mlp"] for i in range(6)] == ["first"] * 2 + ["middle"] * 2 + ["last"] * 2


def test_weights_give_the_mean_over_a_group() -> None:
    rows = [UnitRow("a", "conv", 0, 0.0), UnitRow("b", "conv", 0, 0.5), UnitRow("c", "mlp", 0, 1.0)]
    weights = group_weights(rows, ("first", "last", "only"))
    assert set(weights) == {("conv", ""), ("conv", "first"), ("conv", "last"), ("mlp", ""), ("mlp", "only")}
    np.testing.assert_array_equal(weights["conv", ""], [0.5, 0.5, 0.0])


def test_a_first_block_counts_even_if_it_cannot_be_removed() -> None:
    place = positions(vs.anatomy(vs.create_model("resnet_mini")))
    assert (place["layer2.0"], place["layer2.1"]) == ("first", "last")
    assert "fc" not in place


def test_only_groups_that_exist_are_compared() -> None:
    there = [("msa", "first"), ("msa", "last"), ("mlp", "last"), ("conv", "only")]
    assert contrasts(there) == [(("msa", "last"), ("mlp", "last"))]
