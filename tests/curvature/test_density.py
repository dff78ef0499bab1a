from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.curvature.spectra import matrix, vector
from vitscope.curvature.density import Quadrature, quadrature, random_signs

SPECTRUM = [40.0, -20.0, *np.linspace(-1, 3, 298)]


def test_moments_are_exact_and_weights_sum_to_one() -> None:
    H, probe = matrix(SPECTRUM), random_signs(300, vector(1), seed=3)
    found = quadrature(lambda v: H @ v, probe, steps=10)
    assert found.weights.sum() == pytest.approx(1.0)
    unit = probe / probe.norm()
    for power in (1, 2, 3):
        expected = float(unit @ torch.linalg.matrix_power(H, power) @ unit)
        assert (found.weights * found.nodes**power).sum() == pytest.approx(expected, rel=1e-9)


def test_the_mean_over_probes_is_the_density() -> None:
    H = matrix(SPECTRUM)
    grid, width = np.linspace(-25, 45, 200), 1.0
    probes = [random_signs(300, vector(1), seed) for seed in range(60)]
    estimates = [quadrature(lambda v: H @ v, probe, 30).smoothed(grid, width) for probe in probes]
    exact = Quadrature(np.array(SPECTRUM), np.full(300, 1 / 300)).smoothed(grid, width)
    error = np.std(estimates, axis=0) / np.sqrt(60)
    assert (np.abs(np.mean(estimates, axis=0) - exact) <= 4.5 * error + 1e-6).all()
    assert exact.sum() * (grid[1] - grid[0]) == pytest.approx(1.0, rel=1e-3)


def test_random_signs_are_signs_and_repeat() -> None:
    signs = random_signs(1000, torch.zeros(1), seed=5)
    assert set(signs.tolist()) == {-1.0, 1.0}
    assert torch.equal(signs, random_signs(1000, torch.zeros(1), seed=5))
    assert not torch.equal(signs, random_signs(1000, torch.zeros(1), seed=6))
    assert abs(float(signs.mean())) < 0.15


BULK = np.random.default_rng(0)
CLUSTERED = [50.0, 30.0, 20.0, -12.0, -8.0, *BULK.normal(0.05, 0.15, 300), *BULK.normal(0.0, 1.5, 95)]


@pytest.mark.parametrize("threshold", [-0.6, 0.0, 3.0])
@pytest.mark.parametrize("steps", [5, 15, 40])
def test_bounds_hold_the_weight_of_every_probe(threshold: float, steps: int) -> None:
    """Each probe has a density of its own, whose weight below a threshold is known exactly."""
    eigenvectors = torch.linalg.qr(
        torch.randn(400, 400, dtype=torch.float64, generator=torch.manual_seed(0))
    )[0]
    values = torch.tensor(CLUSTERED, dtype=torch.float64)
    H = eigenvectors * values @ eigenvectors.T
    for seed in range(10):
        probe = random_signs(400, vector(1), seed)
        own = (eigenvectors.T @ probe).square() / 400
        low, high = quadrature(lambda v: H @ v, probe, steps).below(threshold)
        exact = float(own[values < threshold].sum())
        assert 0.0 <= low <= exact + 1e-12
        assert exact - 1e-12 <= high <= 1.0


def test_bounds_get_closer_with_more_steps() -> None:
    H, probe = matrix(CLUSTERED), random_signs(400, vector(1), seed=1)
    gaps = [np.diff(quadrature(lambda v: H @ v, probe, steps).below(-0.6))[0] for steps in (8, 16, 32, 64)]
    assert all(later < 0.7 * earlier for earlier, later in pairwise(gaps))
    assert gaps[-1] < 0.02


def test_bounds_of_a_few_eigenvalues() -> None:
    two = Quadrature(np.array([-1.0, 1.0]), np.array([0.3, 0.7]))
    low, high = two.below(-5.0)
    assert low == 0.0
    assert high < 0.1  # mean 0.4 and variance 0.84: little can be below -5 (Cantelli: 0.84 / (0.84 + 5.4^2))
    assert high == pytest.approx(0.84 / (0.84 + 5.4**2))
    assert Quadrature(np.array([2.0]), np.array([1.0])).below(0.0) == (0.0, 1.0)
    assert two.below(0.4) == pytest.approx((0.0, 1.0), abs=0.01)  # at the mean of two nodes nothing is known
