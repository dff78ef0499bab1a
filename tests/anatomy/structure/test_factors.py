"""Axes of einsums, against torch's own."""

import pytest
import torch

from vitscope.anatomy.structure.factors import einsum_axes, summed_axes
from vitscope.anatomy.watch.graph import Node
from vitscope.anatomy.watch.one_forward import Site

SIZES = dict(b=2, h=3, i=4, j=5, d=6, w=7)


def node(equation: str) -> Node:
    return Node(0, "einsum", (), (), Site("", 0, "einsum", 0), True, args=(equation,))


@pytest.mark.parametrize(
    "equation",
    [
        "bhij,bhjd->bhid",
        "b i j h, b j h d -> b i h d",
        "bhij,bjd->bhid",
        "bwhij,bwjhd->bihwd",
        "bij,bjd->bdi",
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_the_einsum_is_this_matrix_product(equation, swapped):
    left, right, result = equation.replace(" ", "").replace("->", ",").split(",")
    written = f"{right},{left}->{result}" if swapped else f"{left},{right}->{result}"
    axes = einsum_axes(node(written), int(swapped))
    a, b = (torch.randn([SIZES[x] for x in term]) for term in (left, right))
    wanted = torch.einsum(f"{left},{right}->{result}", a, b)
    found = axes.in_order(a, "left") @ axes.in_order(b, "right")
    assert torch.allclose(found, axes.in_order(wanted, "result"), atol=1e-5)
    assert torch.allclose(axes.as_given(found), wanted, atol=1e-5)


@pytest.mark.parametrize(
    "equation", ["...ij,...jd->...id", "bii,bid->bid", "bij,bjd,bd->bid", "bij,bij->bij"]
)
def test_what_is_no_matrix_product_has_none(equation):
    assert einsum_axes(node(equation), 0) is None


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    ("weights", "values", "key"), [((2, 1, 4, 9), (2, 6, 4, 9), 3), ((2, 9, 1), (2, 9, 6), 1)]
)
def test_a_sum_of_products_is_this_matrix_product(weights, values, key, kept):
    axes = summed_axes(weights, values, key, kept)
    a, b = torch.randn(weights), torch.randn(values)
    wanted = (a * b).sum(key, keepdim=kept)
    found = axes.in_order(a, "left") @ axes.in_order(b, "right")
    assert torch.allclose(axes.as_given(found), wanted, atol=1e-5)
    assert torch.allclose(axes.in_order(wanted, "result"), found, atol=1e-5)
