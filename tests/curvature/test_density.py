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
