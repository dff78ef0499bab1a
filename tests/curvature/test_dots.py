import numpy as np
import pytest
import torch

from vitscope.curvature.dots import PIECE, combine, dot, norm, pieces, project, subtract

LONG = 3 * PIECE + 17


def test_pieces_cover_everything_once() -> None:
    assert [s.stop - s.start for s in pieces(LONG)] == [PIECE, PIECE, PIECE, 17]
    assert next(pieces(5)) == slice(0, 5)


def test_long_float32_vectors_lose_no_digits() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.rand(2, LONG, generator=generator)
    exact = float(a.double() @ b.double())
    assert dot(a, b) == pytest.approx(exact, rel=1e-6)
    assert norm(a) == pytest.approx(float(a.double().norm()), rel=1e-6)
    rows = torch.stack([a, b, a - b])
    exact_rows = (rows.double() @ b.double()).numpy()
    np.testing.assert_allclose(project(rows, b).numpy(), exact_rows, rtol=1e-6, atol=1e-3)


def test_combine_and_subtract() -> None:
    rows, weights = torch.randn(3, 7), torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
    expected = 2 * rows[0] - rows[1] + 0.5 * rows[2]
    torch.testing.assert_close(combine(rows, weights), expected)
    vector = torch.ones(7)
    subtract(vector, rows, weights)
    torch.testing.assert_close(vector, 1 - expected)
