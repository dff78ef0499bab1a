"""Verdicts on attention that is known."""

import torch

from tests.exams.attention_by_hand import images, vit
from tests.exams.factories import tiny
from vitscope.claims import attention_verdicts, broadcast_verdicts
from vitscope.exams import attention, low_pass


def scaled(factor: float):
    model = vit()
    for block in model.blocks:
        block.attn.qkv.weight.data.mul_(factor)
    return model


def verdicts(factor: float) -> dict[str, tuple[str, str]]:
    model = scaled(factor)
    results = {"attention": attention(model, images()), "low_pass": low_pass(model, images())}
    return {v.claim: (v.judgement, v.found) for v in attention_verdicts("vit", results)}


def test_uniform_attention_is_dense_and_a_low_pass_filter():
    found = verdicts(0.0)
    assert found["E1"] == ("holds", "2 of 2 layers; mean 2.83 of at most 2.83")
    assert found["D6"][0] == "holds"


def test_attention_on_single_keys_is_not_dense():
    found = verdicts(30.0)
    assert found["E1"][0] == "does not hold"
    assert found["E1"][1].startswith("0 of 2 layers")


def test_sharper_attention_has_less_entropy():
    plain, sharp = attention(scaled(1.0), images()), attention(scaled(4.0), images())
    lowered, raised = broadcast_verdicts("vit", plain, sharp), broadcast_verdicts("vit", sharp, plain)
    assert [v.claim for v in lowered] == ["E1", "E2"]
    assert lowered[0].judgement == "holds"
    assert lowered[0].found.startswith("2 of 2 layers; -")
    assert raised[0].judgement == "does not hold"


def test_the_same_model_has_the_same_distance():
    plain = attention(vit(), images())
    entropy, distance = broadcast_verdicts("vit", plain, plain)
    assert entropy.judgement == "inconclusive"
    assert distance.judgement == "holds"
    assert distance.found == "within 10% in 2 of 2 layers; mean change +0.0%"


def test_a_model_without_attention_decides_nothing():
    data = (torch.randn(2, 3, 32, 32), torch.zeros(2, dtype=torch.long))
    empty = attention(tiny(), data)
    assert attention_verdicts("tiny", {"attention": empty, "low_pass": low_pass(tiny(), data)}) == []
    assert broadcast_verdicts("tiny", empty, empty) == []
