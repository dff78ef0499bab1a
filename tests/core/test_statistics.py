import math

import numpy as np
import pytest

from vitscope.core.bootstrap import few_interval, images_behind, poisson_weights
from vitscope.core.statistics import (
    NORMAL,
    Estimate,
    difference_interval,
    difference_of,
    histogram_percentile,
    mean_interval,
    mean_share_interval,
    paired_interval,
    score_interval,
    share_interval,
    student,
)


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


def test_what_rounding_puts_beside_the_range_of_a_share_is_at_its_end() -> None:
    values = np.array([1 + 1e-9, 0.5, -1e-12, np.nan])
    found = Estimate(values, values - 0.6, values + 0.6).bounded()
    np.testing.assert_array_equal(found.value, [1.0, 0.5, 0.0, np.nan])
    np.testing.assert_allclose(found.low, [0.4 + 1e-9, 0.0, 0.0, np.nan])
    np.testing.assert_allclose(found.high, [1.0, 1.0, 0.6 - 1e-12, np.nan])
    assert Estimate(2.0, -2.0, 9.0).bounded(-1.0, 1.0) == (1.0, -1.0, 1.0)


def test_wilson_solves_its_equation() -> None:
    count, n = np.array([3, 50, 97, 1]), np.array([10, 100, 100, 2000])
    for end in share_interval(count, n):  # the shares p at which count / n is 1.96 standard errors away
        np.testing.assert_allclose(np.abs(count / n - end), NORMAL * np.sqrt(end * (1 - end) / n), rtol=1e-9)
    low, high = share_interval(np.array([0, 100]), np.array([100, 100]))
    assert (low[0], high[1]) == (0.0, 1.0)
    assert high[0] == pytest.approx(1 - low[1]) == pytest.approx(NORMAL**2 / (100 + NORMAL**2))


def test_no_images_no_interval() -> None:
    low, high = share_interval(np.array([0.0]), np.array([0.0]))
    assert np.isnan(low[0])
    assert np.isnan(high[0])


@pytest.mark.parametrize("share", [0.5, 0.9, 0.98, 0.995])
@pytest.mark.parametrize("n", [50, 200, 1000])
def test_shares_are_covered_as_far_as_whole_numbers_allow(share: float, n: int) -> None:
    counts = np.arange(n + 1)
    low, high = share_interval(counts, n)
    logs = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in counts]
    chance = np.exp(np.array(logs) + counts * np.log(share) + (n - counts) * np.log1p(-share))
    assert chance.sum() == pytest.approx(1.0)
    assert 0.92 < chance[(low <= share) & (share <= high)].sum() < 0.99
    assert (low >= 0).all()
    assert (high <= 1).all()
    assert (high > low).all()


def test_yes_or_no_scores_have_wilsons_interval() -> None:
    n, count = 60, np.array([0, 1, 30, 59, 60])
    error = np.sqrt(count / n * (1 - count / n) / n)
    np.testing.assert_allclose(
        score_interval(count / n, error, n), share_interval(count, n), rtol=1e-9, atol=1e-12
    )


def test_mean_scores_in_the_middle_have_the_usual_interval() -> None:
    x = np.random.default_rng(0).beta(5, 5, 2000)
    low, high = score_interval(x.mean(), x.std() / math.sqrt(2000), 2000)
    half = NORMAL * x.std() / math.sqrt(2000)
    assert (low, high) == pytest.approx((x.mean() - half, x.mean() + half), abs=0.05 * half)


def test_differences_have_the_interval_of_their_pairs() -> None:
    difference = np.random.default_rng(0).choice([-1, 0, 1], 150, p=[0.05, 0.8, 0.15])
    found = difference_interval(difference.mean(), difference.std() / math.sqrt(150), 150)
    expected = paired_interval(difference.sum(), (difference**2).sum(), 150)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_difference_of_two_means_is_that_of_theory() -> None:
    """With symmetric intervals of a and b it is the usual one of a - b: variances add up, less twice the covariance."""
    low, high = difference_of(Estimate(5.0, 4.0, 6.0), Estimate(3.0, 1.5, 4.5), correlation=0.4)
    half = math.sqrt(1.0 + 1.5**2 - 2 * 0.4 * 1.0 * 1.5)
    assert (low, high) == pytest.approx((2.0 - half, 2.0 + half))
    low, high = difference_of(
        Estimate(0.1, 0.0, 0.1), Estimate(0.05, 0.05, 0.05)
    )  # the first may be too high by 0.1
    assert (low, high) == pytest.approx((-0.05, 0.05))


def test_few_units_have_students_interval() -> None:
    x = np.random.default_rng(2).normal(1.0, 1.0, (4000, 5))
    low, high = few_interval(x.mean(1), x.std(1) / math.sqrt(5), 5)
    assert np.mean((low < 1.0) & (high > 1.0)) == pytest.approx(0.95, abs=0.012)
    assert np.isnan(few_interval(np.array(1.0), 0.0, 1)).all()


@pytest.mark.parametrize("n", [2, 4, 8, 16])
@pytest.mark.parametrize(
    ("share", "answers"),
    [
        (0.005, 200),
        (0.02, 200),
        (0.1, 200),
        (0.5, 200),
        (0.1, 40),
        (0.5, 40),
    ],  # 40: they vary more than is known
)
def test_means_of_a_few_shares_are_covered(share: float, answers: float, n: int) -> None:
    drawn = np.random.default_rng(0).beta(answers * share, answers * (1 - share), (n, 4000))
    low, high = mean_share_interval(drawn, 200)
    mean = drawn.mean(0)
    assert ((low >= 0) & (low <= mean) & (mean <= high) & (high <= 1)).all()
    assert np.mean((low <= share) & (share <= high)) >= 0.94  # 0.95 and what 4000 draws leave open


@pytest.mark.parametrize("n", [6, 8, 10])
@pytest.mark.parametrize("share", [0.005, 0.02, 0.1])
@pytest.mark.parametrize("spread", [0.58, 1.0, 2.0])
def test_means_of_shares_that_differ_by_as_much_as_they_are(share: float, spread: float, n: int) -> None:
    """Skewed: those that are all low by chance agree about it, and their mean lies too low (the interval as well)."""
    a = (
        1 - share
    ) / spread**2 - share  # of a beta distribution with this mean, and a spread that is a multiple of it
    drawn = np.random.default_rng(0).beta(a, a * (1 - share) / share, (n, 4000))
    low, high = mean_share_interval(drawn, 50_000)
    assert ((low >= 0) & (high <= 1)).all()
    assert np.mean((low <= drawn.mean(0)) & (drawn.mean(0) <= high)) == 1.0
    assert np.mean((low <= share) & (share <= high)) >= 0.94  # 0.95 and what 4000 draws leave open
    if spread < 0.6 and n == 8:
        assert np.median(high - low) < 2 * share  # it says something still


def test_one_share_has_no_interval_and_equal_ones_have_that_of_their_answers() -> None:
    assert np.isnan(mean_share_interval(np.array([[0.3, 0.0]]), 50)).all()
    shares = np.tile([0.0, 0.25, 1.0], (4, 1))
    expected = np.stack(share_interval(np.array([0, 50, 200]), 200))
    expected[:, [0, 2]] = share_interval(
        np.array([0, 50]), 50
    )  # none seen: nothing says that the four differ
    np.testing.assert_allclose(mean_share_interval(shares, 50), expected)


def test_images_behind_a_count_are_those_that_it_varies_with() -> None:
    weights = poisson_weights(np.arange(50), 0)  # (images, 1 + replicates)
    counts = {
        "one": [900.0],
        "as much each": [30.0] * 50,
        "mostly one": [900.0, 3.0, 2.0, 5.0],
        "none": [0.0],
    }
    found = {name: int(images_behind(weights[: len(own)].T @ np.array(own))) for name, own in counts.items()}
    assert (found["one"], found["mostly one"], found["none"]) == (1, 1, 0)
    assert found["as much each"] == pytest.approx(50, rel=0.1)


def test_the_percentile_of_known_numbers() -> None:
    generator, bins = np.random.default_rng(0), 256
    samples = generator.beta(2, 5, size=(400, 50)) * 3 + generator.normal(0, 0.1, size=(400, 1)).clip(
        -0.2, 0.2
    )
    samples = samples.clip(0, 2.999)
    shares = np.stack([np.histogram(s, bins, (0, 3))[0] / 50 for s in samples])
    value, low, high = histogram_percentile(shares.sum(0), np.square(shares.cumsum(1)).sum(0), 400, 3.0, 0.15)
    assert value == pytest.approx(np.quantile(samples, 0.15), abs=3 / bins)
    resampled = [np.quantile(samples[generator.integers(400, size=400)], 0.15) for _ in range(600)]
    assert high - low == pytest.approx(2 * 1.96 * np.std(resampled), rel=0.15)
    assert low < value < high
