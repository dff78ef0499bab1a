"""Products of long vectors, and sets of them."""

import os
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.worst_order import ORDERS, added_up, rounding
from vitscope.core.errors import VitscopeError
from vitscope.curvature import dots
from vitscope.curvature.dots import BLOCK, PIECE, Basis, blocks, combine, dot, norm, project, subtract

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


@pytest.mark.parametrize("memory", [None, 0])  # 0: in a file
def test_orthogonalise_combine_and_rotate(
    memory: int | None, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    q = torch.linalg.qr(torch.randn(9, 4, dtype=torch.float64)).Q.T
    with Basis(6, 3 * q[0], memory) as basis:
        assert len(os.listdir(tmp_path)) == (1 if memory == 0 else 0)
        for i in range(1, 4):
            basis.append(q[i], i)
        torch.testing.assert_close(basis[0], q[0])
        vector = 2 * q[0] - q[2]
        along = basis.orthogonalise(vector, 3)
        np.testing.assert_allclose(along, [2, 0, -1], atol=1e-12)
        assert float(vector.norm()) < 1e-12
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 2)))[0]
        expected = torch.from_numpy(turn.T) @ q[:3]
        torch.testing.assert_close(basis.combine(turn[:, 0]), expected[0])
        basis.rotate(turn, 3)
        torch.testing.assert_close(torch.stack([basis[0], basis[1], basis[2]]), torch.cat([expected, q[3:]]))
    assert not os.listdir(tmp_path)


def test_a_start_of_length_zero_is_refused() -> None:
    with pytest.raises(VitscopeError, match="start vector has length 0"):
        Basis(3, torch.zeros(5))
