from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.worst_order import ORDERS, added_up, rounding
from vitscope.curvature import dots
from vitscope.curvature.dots import BLOCK, PIECE, blocks, combine, dot, norm, project, subtract

LONG = 3 * BLOCK + 17


def test_blocks_cover_everything_once() -> None:
    assert [s.stop - s.start for s in blocks(LONG)] == [BLOCK, BLOCK, BLOCK, 17]
    assert next(blocks(5)) == slice(0, 5)


def random(length: int) -> tuple[Tensor, Tensor]:
    a, b = torch.rand(2, length, generator=torch.Generator().manual_seed(0))
    return a, b


def swallowed(length: int) -> tuple[Tensor, Tensor]:
    """The first product is so large that a sum which begins with it takes in none of the others."""
    a = torch.full((length,), 2.0**-25)
    a[0] = 1.0
    return a, torch.ones(length)


@pytest.mark.parametrize("length", [1, PIECE - 1, PIECE, LONG])
@pytest.mark.parametrize("vectors", [random, swallowed])
@pytest.mark.parametrize("order", [None, *ORDERS])
def test_the_error_is_that_of_one_piece(
    order: str | None, vectors: Callable[[int], tuple[Tensor, Tensor]], length: int
) -> None:
    a, b = vectors(length)
    rows = torch.stack([a, b, a - b])
    if order is None:
        found, size, along = dot(a, b), norm(a), project(rows, b)
    else:
        with added_up(order):
            found, size, along = dot(a, b), norm(a), project(rows, b)
    a, b, rows = a.double(), b.double(), rows.double()
    bound = rounding(PIECE)  # nothing here is negative but a - b: the terms add up to the products themselves
    assert found == pytest.approx(float(a @ b), rel=bound, abs=0)
    assert size == pytest.approx(
        float(a.norm()), rel=bound / 2 + rounding(1), abs=0
    )  # the root halves errors
    error = (along - rows @ b).abs()
    assert (error <= bound * (rows.abs() @ b)).all()


def test_elsewhere_than_on_a_cpu_every_sum_is_in_float64() -> None:
    a, b = random(LONG)
    rows = torch.stack([a, b, a - b])
    error = (dots._elementwise(rows, b) - rows.double() @ b.double()).abs()
    assert (error <= rounding(1) * (rows.abs().double() @ b.double()) * (1 + 1e-6)).all()


def test_combine_and_subtract() -> None:
    rows, weights = torch.randn(3, 7), torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
    expected = 2 * rows[0] - rows[1] + 0.5 * rows[2]
    torch.testing.assert_close(combine(rows, weights), expected)
    vector = torch.ones(7)
    subtract(vector, rows, weights)
    torch.testing.assert_close(vector, 1 - expected)
