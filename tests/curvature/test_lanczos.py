import numpy as np
import pytest
import torch

from tests.curvature.spectra import (
    BULK,
    CLUSTERED,
    COPIES,
    PAIRED,
    by_magnitude,
    matrix,
    true_residuals,
    vector,
)
from vitscope.core.errors import VitscopeError
from vitscope.curvature.lanczos import krylov_matrix, lanczos

K = 5


@pytest.mark.any_order
@pytest.mark.parametrize(
    "spectrum", [PAIRED, CLUSTERED, COPIES, [7.0] * 40, [-3.0, 3.0, 2.0, -2.0, 1.0, 0.5]]
)
@pytest.mark.parametrize(("dtype", "tol"), [(torch.float64, 1e-8), (torch.float32, 1e-4)])
def test_known_spectra(spectrum: list[float], dtype: torch.dtype, tol: float) -> None:
    H = matrix(spectrum, dtype)
    found = lanczos(lambda v: H @ v, vector(len(spectrum), dtype), K, tol, vectors=True)
    expected = by_magnitude(spectrum, K)
    np.testing.assert_allclose(np.sort(found.values), np.sort(expected), rtol=max(tol**2, 1e-6))
    assert (np.diff(np.abs(found.values)) <= 1e-5).all()
    assert found.converged.all()
    assert found.vectors is not None
    true = true_residuals(H, found.values, found.vectors)
    assert (true <= tol).all()


@pytest.mark.any_order
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_reported_residual_is_the_true_one(dtype: torch.dtype) -> None:
    H = matrix(PAIRED, dtype)
    for products in (8, 12, 16):
        found = lanczos(lambda v: H @ v, vector(len(PAIRED), dtype), K, 1e-12, products, vectors=True)
        assert found.vectors is not None
        true = true_residuals(H, found.values, found.vectors)
        large = true > 1e-5
        np.testing.assert_allclose(found.residuals[large], true[large], rtol=1e-3)
        assert (found.residuals[~large] >= 0.3 * true[~large] - 1e-12).all()
        assert found.products == products


def test_an_operator_that_changes_is_not_called_converged() -> None:
    H, count = matrix(PAIRED), 0

    def drifting(v: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return (1 + 0.01 * count) * (H @ v)

    assert not lanczos(drifting, vector(len(PAIRED)), K, 1e-3).converged.any()


def test_restarts_find_the_same_with_a_small_basis() -> None:
    spectrum = [30.0, -29.0, 28.5, 28.0, -27.0, *np.linspace(-25, 25, 400)]
    H = matrix(spectrum)
    found = lanczos(lambda v: H @ v, vector(len(spectrum)), K, 1e-6, basis_size=12, vectors=True)
    assert found.products > 24
    np.testing.assert_allclose(found.values, by_magnitude(spectrum, K), rtol=1e-9)
    assert found.vectors is not None
    assert (true_residuals(H, found.values, found.vectors) <= 1e-6).all()
    torch.testing.assert_close(found.vectors @ found.vectors.T, torch.eye(K, dtype=torch.float64))


def test_stops_at_the_limit_and_says_so() -> None:
    H = matrix(PAIRED)
    steps: list[int] = []
    found = lanczos(lambda v: H @ v, vector(len(PAIRED)), K, 1e-6, max_products=9, on_step=steps.append)
    assert (found.products, steps) == (9, list(range(1, 9)))
    assert not found.converged.all()
    np.testing.assert_array_equal(found.converged, found.residuals <= 1e-6)


def test_a_matrix_of_zeros() -> None:
    found = lanczos(lambda v: 0 * v, vector(20), 3)
    np.testing.assert_array_equal(found.values, 0)
    assert found.converged.all()


def test_numbers_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(VitscopeError, match="not finite"):
        lanczos(lambda v: v * float("nan"), vector(20), 3)


def test_krylov_matrix_has_the_moments_of_the_start() -> None:
    H, v = matrix(BULK), vector(len(BULK))
    T = krylov_matrix(lambda v: H @ v, v, 6)
    assert T.shape == (6, 6)
    unit = v / v.norm()
    for power in range(1, 12):
        expected = float(unit @ torch.linalg.matrix_power(H, power) @ unit)
        assert np.linalg.matrix_power(T, power)[0, 0] == pytest.approx(expected, rel=1e-8, abs=1e-6)
