import numpy as np
import pytest
import torch

from tests.curvature.spectra import matrix, vector
from vitscope.curvature.top import trace_estimates


def test_unbiased_with_the_spread_of_theory() -> None:
    H = matrix([40.0, -20.0, *np.linspace(-1, 3, 98)])
    found = trace_estimates(lambda v: H @ v, vector(100), probes=400)
    off_diagonal = H - torch.diag(H.diagonal())
    spread = float((2 * off_diagonal.square().sum()).sqrt())
    assert found.mean() == pytest.approx(float(H.trace()), abs=4 * spread / 20)
    assert found.std() == pytest.approx(spread, rel=0.15)


def test_exact_for_a_diagonal_matrix() -> None:
    diagonal = torch.tensor([1.0, -2.0, 5.0])
    np.testing.assert_allclose(trace_estimates(lambda v: diagonal * v, torch.zeros(3), probes=2), [4, 4])
