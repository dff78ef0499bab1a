import math

import numpy as np
import pytest

from vitscope.exams.bootstrap import correlation, percentile_interval, poisson_weights, standard_error


def test_weights_are_poisson() -> None:
    weights = poisson_weights(np.arange(2000), seed=0)[:, 1:]
    for k in range(6):
        expected = math.exp(-1) / math.factorial(k)
        assert np.mean(weights == k) == pytest.approx(expected, abs=4 * math.sqrt(expected / weights.size))
    assert weights.var() == pytest.approx(1.0, abs=0.01)


def test_images_replicates_and_seeds_are_independent() -> None:
    weights = poisson_weights(np.arange(500), seed=0)[:, 1:]
    other = poisson_weights(np.arange(500), seed=1)[:, 1:]
    by_image = np.corrcoef(weights)[np.triu_indices(500, 1)]
    by_replicate = np.corrcoef(weights.T)[np.triu_indices(1000, 1)]
    assert abs(by_image.mean()) < 1e-3
    assert by_image.std() == pytest.approx(1 / math.sqrt(1000), rel=0.05)
    assert by_replicate.std() == pytest.approx(1 / math.sqrt(500), rel=0.05)
    assert abs(np.corrcoef(weights.ravel(), other.ravel())[0, 1]) < 5e-3


def test_an_image_has_the_same_weights_in_any_company() -> None:
    together = poisson_weights(np.array([5, 900_000_000_000, 7]), seed=3)
    np.testing.assert_array_equal(together[1:2], poisson_weights(np.array([900_000_000_000]), seed=3))
    np.testing.assert_array_equal(together[:, 0], 1.0)


def test_interval_of_a_mean_has_the_width_of_theory() -> None:
    x = np.random.default_rng(0).normal(0.0, 1.0, 1000)
    weights = poisson_weights(np.arange(1000), seed=0)[:, 1:]
    low, high = percentile_interval((x @ weights / weights.sum(0))[:, None])
    assert high[0] - low[0] == pytest.approx(2 * 1.96 * x.std() / math.sqrt(1000), rel=0.1)
    assert low[0] < x.mean() < high[0]


def test_standard_error_of_a_mean_is_that_of_theory() -> None:
    x = np.random.default_rng(0).normal(0.0, 2.0, 400)
    weights = poisson_weights(np.arange(400), seed=0)[:, 1:]
    assert standard_error(x @ weights / weights.sum(0)) == pytest.approx(x.std() / 20, rel=0.06)
    assert np.isnan(standard_error(np.full((5, 2), np.nan))).all()


def test_correlation_of_replicates_is_that_of_the_images() -> None:
    generator = np.random.default_rng(0)
    x, other = generator.normal(size=(2, 500))
    y = 0.6 * x + 0.8 * other
    weights = poisson_weights(np.arange(500), seed=0)[:, 1:]
    means = [values @ weights / weights.sum(0) for values in (x, y)]
    assert correlation(*means) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=0.05)
    assert correlation(means[0], np.ones(1000)) == 0.0
