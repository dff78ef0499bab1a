import numpy as np
import pytest
import torch

from tests.curvature.spectra import PAIRED, matrix, true_residuals, vector
from vitscope.curvature.power import power


def test_well_separated_eigenvalues_are_found() -> None:
    spectrum = [50.0, -30.0, 15.0, *np.linspace(-2, 2, 100)]
    H = matrix(spectrum)
    found = power(lambda v: H @ v, vector(len(spectrum)), 3, tol=1e-8)
    np.testing.assert_allclose(found.values, [50, -30, 15], rtol=1e-6)
    assert not found.converged.any() or found.residuals.max() < 1e-2


def test_paired_eigenvalues_are_missed_and_the_residual_says_so() -> None:
    H = matrix(PAIRED)
    found = power(lambda v: H @ v, vector(len(PAIRED)), 2, vectors=True)
    assert abs(abs(found.values[0]) - 50) > 0.5  # it swings between 50 and -49.5
    assert found.vectors is not None
    np.testing.assert_allclose(found.residuals, true_residuals(H, found.values, found.vectors), rtol=1e-6)
    assert not found.converged.any()


def test_products_are_counted_and_limited() -> None:
    H = matrix(PAIRED)
    steps: list[int] = []
    found = power(lambda v: H @ v, vector(len(PAIRED)), 2, tol=0.0, iterations=7, on_step=steps.append)
    assert (found.products, steps[-1]) == (14, 14)


@pytest.mark.any_order
def test_float32() -> None:
    H = matrix([9.0, -4.0, *[0.1] * 50], torch.float32)
    found = power(lambda v: H @ v, vector(52, torch.float32), 2)
    np.testing.assert_allclose(found.values, [9, -4], rtol=1e-3)
