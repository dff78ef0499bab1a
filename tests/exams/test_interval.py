import math

import numpy as np
import pytest

from vitscope.exams.interval import mean_interval, student


def upper_tail(t: float, degrees: int) -> float:
    """P(T > t), by summing the density over its angle: t = sqrt(v) tan(a) turns it into cos(a)^(v - 1)."""
    angles = np.linspace(-math.pi / 2, math.pi / 2, 400_001)
    density = np.cos(angles) ** (degrees - 1)
    return float(density[angles > math.atan(t / math.sqrt(degrees))].sum() / density.sum())


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 100, 1000])
def test_student_leaves_out_the_right_tail(degrees: int) -> None:
    assert upper_tail(student(degrees), degrees) == pytest.approx(0.025, rel=2e-3)


def test_interval_is_that_of_the_sample() -> None:
    x = np.random.default_rng(0).normal(5.0, 2.0, (40, 3))
    mean, low, high = mean_interval(x.sum(0), (x**2).sum(0), 40)
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-12)
    half = 2.0226909 * x.std(0, ddof=1) / math.sqrt(40)  # t quantile with 39 degrees of freedom
    np.testing.assert_allclose(high - mean, half, rtol=1e-5)
    np.testing.assert_allclose(mean - low, half, rtol=1e-5)


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    x = np.random.default_rng(1).normal(1.0, 1.0, (4000, 6))
    _, low, high = mean_interval(x.sum(1), (x**2).sum(1), 6)
    assert np.mean((low < 1.0) & (high > 1.0)) == pytest.approx(0.95, abs=0.012)


def test_one_image_has_no_interval() -> None:
    mean, low, high = mean_interval(np.array([2.0]), np.array([4.0]), 1)
    assert mean[0] == 2.0
    assert np.isnan([low[0], high[0]]).all()


def test_equal_images_have_an_interval_of_no_width() -> None:
    mean, low, high = mean_interval(np.array([0.3]), np.array([0.03]), 3)
    np.testing.assert_allclose([low[0], high[0]], mean[0], atol=1e-8)
