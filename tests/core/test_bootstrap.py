import math
import warnings

import numpy as np
import pytest
from scipy import stats

from vitscope.core.bootstrap import (
    correlation,
    mean_interval_of_few,
    percentile_interval,
    poisson_weights,
    standard_error,
)


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


def test_interval_of_a_mean_is_that_of_scipys_accelerated_bootstrap() -> None:
    x = np.random.default_rng(0).exponential(1.0, 60) ** 2  # lopsided, as losses are
    weights = poisson_weights(np.arange(60), seed=0, replicates=20_000)[:, 1:]
    drawn = (x @ weights / weights.sum(0))[:, None]
    low, high = mean_interval_of_few(drawn, 10**9)  # without what is done for few images
    theirs = stats.bootstrap((x,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(1))
    wide = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert low[0] == pytest.approx(theirs.confidence_interval.low, abs=0.05 * wide)
    assert high[0] == pytest.approx(theirs.confidence_interval.high, abs=0.05 * wide)
    plain = percentile_interval(drawn)
    assert high[0] - plain[1][0] > 0.1 * wide


def test_interval_of_a_mean_covers_the_truth_of_few_lopsided_numbers() -> None:
    generator = np.random.default_rng(0)
    weights = poisson_weights(np.arange(25), seed=0)[:, 1:]
    totals = weights.sum(0)
    held = []
    for _ in range(1000):
        drawn = (generator.exponential(1.0, 25) @ weights / totals)[:, None]
        held.append(
            [
                low[0] <= 1.0 <= high[0]
                for low, high in (mean_interval_of_few(drawn, 25), percentile_interval(drawn))
            ]
        )
    ours, plain = np.mean(held, axis=0)
    assert ours > 0.93
    assert plain < ours - 0.01


def test_means_that_are_not_known_have_no_interval() -> None:
    drawn = np.column_stack([np.full(100, np.nan), np.linspace(0, 1, 100), np.ones(100)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="All-NaN slice")
        low, high = mean_interval_of_few(drawn, 30)
    assert np.isnan([low[0], high[0]]).all()
    assert 0 <= low[1] < 0.03
    assert (low[2], high[2]) == (1.0, 1.0)


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
