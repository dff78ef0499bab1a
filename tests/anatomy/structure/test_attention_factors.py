"""Weights and values as they are met."""

import torch

from vitscope.anatomy.structure.attention_factors import as_given, attention_factors, by_head, oriented
from vitscope.anatomy.structure.unit import AttentionSite
from vitscope.anatomy.taps.intervene import Call
from vitscope.anatomy.watch.one_forward import Site

PRODUCT = Site("", 0, "matmul", 0)


def test_weights_that_stand_on_the_right_are_turned():
    site = AttentionSite(PRODUCT, False, 1, weights_transposed=True, softmax=Site("", 0, "softmax", 0))
    weights, values = (
        torch.rand(2, 3, 5, 4).softmax(-2),
        torch.randn(2, 3, 6, 5),
    )  # keys x queries, channels x keys
    seen = attention_factors(site, Call(torch.matmul, (values, weights), {}, 2))
    output = values @ weights
    assert seen.weights.shape == (2, 3, 4, 5)
    assert torch.allclose(seen.weights @ seen.values, oriented(site, output, "result"), atol=1e-6)
    assert torch.allclose(as_given(site, seen.weights @ seen.values), output, atol=1e-6)
    assert seen.probabilities is seen.weights


def test_rows_of_exponentials_are_normalised():
    site = AttentionSite(PRODUCT, False)
    weights, values = torch.randn(2, 3, 4, 5).exp(), torch.randn(2, 3, 5, 6)
    seen = attention_factors(site, Call(torch.matmul, (weights, values), {}, 2))
    assert torch.equal(seen.weights, weights)
    assert torch.allclose(seen.probabilities, weights.log().softmax(-1), atol=1e-6)


def test_heads_come_after_images_and_windows():
    tensor = torch.randn(2, 7, 3, 4, 5)  # images, windows, heads, queries, keys
    assert torch.equal(by_head(tensor, AttentionSite(PRODUCT, False, head_axis=2)), tensor.flatten(0, 1))
    folded = torch.randn(6, 4, 5)
    assert torch.equal(by_head(folded, AttentionSite(PRODUCT, False, heads=3)), folded.view(2, 3, 4, 5))
