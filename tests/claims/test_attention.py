"""Verdicts on attention that is known."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.claims.test_verdict import MIRRORED
from tests.exams.attention_by_hand import images, vit
from tests.exams.factories import tiny
from vitscope.claims import Verdict, attention_verdicts, broadcast_verdicts
from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import Estimate
from vitscope.exams import attention, low_pass


def scaled(factor: float):
    model = vit()
    for block in model.blocks:
        block.attn.qkv.weight.data.mul_(factor)
    return model


def verdicts(factor: float) -> dict[str, Verdict]:
    model = scaled(factor)
    results = {"attention": attention(model, images()), "low_pass": low_pass(model, images())}
    return {v.claim: v for v in attention_verdicts("vit", results)}


def test_uniform_attention_is_dense_and_a_low_pass_filter():
    found = verdicts(0.0)
    dense = found["E1"]
    assert (dense.judgement, dense.value) == ("holds", pytest.approx(1.0, abs=1e-5))  # all of the bound
    assert dense.evidence == "2 of 2 layers clearly above; mean 2.83 of at most 2.83 nats"
    assert found["D6"].judgement == "holds"


def test_attention_on_single_keys_is_not_dense():
    found = verdicts(30.0)
    assert found["E1"].judgement == "does not hold"
    assert found["E1"].evidence.startswith("0 of 2 layers")


def layered(shares: list[float], half: float = 0.01):
    """An attention whose layers have these shares of the entropy's bound, as often as there are two."""
    found = attention(vit(), images())
    kept = found.layers
    rows = {"row_unit": np.arange(len(shares)), "head": np.full(len(shares), -1)}
    units = tuple(replace(found.units[0], name=f"layer{i}") for i in range(len(shares)))
    bound = np.full(len(shares), found.bound[0])
    fields = {}
    for name, off in (("value", 0.0), ("low", -half), ("high", half)):
        fields[name] = np.repeat(found.value[kept][:1], len(shares), axis=0)
        fields[name][:, 0] = (np.array(shares) + off) * bound[0]
    none = np.zeros(len(shares))
    percentile = Estimate(none, none, none)
    return replace(found, units=units, bound=bound, percentile=percentile, **rows, **fields)


def dense(*shares: float) -> Verdict:
    (verdict,) = attention_verdicts("m", {"attention": layered(list(shares))})
    return verdict


def test_a_majority_of_layers_just_above_the_half_is_not_dense_attention():
    verdict = dense(0.52, 0.52, 0.52, 0.52, 0.1, 0.1)  # a count says "holds"
    assert verdict.value == pytest.approx(0.38)
    assert verdict.judgement == "does not hold"
    assert verdict.evidence.startswith("4 of 6 layers clearly above")
    assert dense(0.52, 0.1, 0.1, 0.15, 0.1, 0.1).judgement == "does not hold"
    assert dense(0.9, 0.85, 0.9, 0.49, 0.95, 0.9).judgement == "holds"


def test_layers_mirrored_at_the_half_mirror_the_verdict():
    for shares in ((0.9, 0.8, 0.85), (0.9, 0.3, 0.6), (0.2, 0.1, 0.15, 0.1)):
        one, other = dense(*shares), dense(*(1 - share for share in shares))
        assert other.judgement == MIRRORED[one.judgement]


def test_sharper_attention_has_less_entropy():
    plain, sharp = attention(scaled(1.0), images()), attention(scaled(4.0), images())
    lowered, raised = broadcast_verdicts("vit", plain, sharp), broadcast_verdicts("vit", sharp, plain)
    assert [v.claim for v in lowered] == ["E1", "E2"]
    assert lowered[0].judgement == "holds"
    assert lowered[0].value < 0
    assert lowered[0].evidence.endswith("2 of 2 layers clearly fall")
    assert "one training each" in lowered[0].scope
    assert raised[0].judgement == "does not hold"
    assert raised[0].value == pytest.approx(-lowered[0].value)
    with pytest.raises(VitscopeError, match="n is"):
        broadcast_verdicts("vit", plain, replace(sharp, n=1))


def test_a_few_layers_with_more_entropy_can_outweigh_most_with_less():
    before = layered([0.5] * 6)
    after = layered([0.48, 0.48, 0.48, 0.48, 0.9, 0.9], half=0.001)
    entropy, _ = broadcast_verdicts("m", before, after)
    assert entropy.evidence.endswith("4 of 6 layers clearly fall")  # a count says "holds"
    assert entropy.value > 0
    assert entropy.judgement == "does not hold"


def test_the_same_model_has_the_same_distance():
    plain = attention(vit(), images())
    entropy, distance = broadcast_verdicts("vit", plain, plain)
    assert entropy.judgement == "inconclusive"
    assert distance.value == 0
    assert (distance.low > -10) == (distance.judgement == "holds")
    narrow = replace(plain, low=plain.value - 1e-4, high=plain.value + 1e-4)
    assert broadcast_verdicts("vit", narrow, narrow)[1].judgement == "holds"
    wide = replace(plain, low=plain.value - 1, high=plain.value + 1)
    assert (
        broadcast_verdicts("vit", wide, wide)[1].judgement == "inconclusive"
    )  # few images prove no likeness
    far = replace(narrow, value=1.5 * plain.value, low=1.5 * narrow.low, high=1.5 * narrow.high)
    assert broadcast_verdicts("vit", narrow, far)[1].judgement == "does not hold"


def test_a_model_without_attention_decides_nothing():
    data = (torch.randn(2, 3, 32, 32), torch.zeros(2, dtype=torch.long))
    empty = attention(tiny(), data)
    assert attention_verdicts("tiny", {"attention": empty, "low_pass": low_pass(tiny(), data)}) == []
    assert broadcast_verdicts("tiny", empty, empty) == []
