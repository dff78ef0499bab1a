"""Intervals over seeds and images cover the truth: simulated trainings whose truth is known."""

import functools
import math

import numpy as np
import pytest

from vitscope.core.bootstrap import few_interval, poisson_weights, standard_error
from vitscope.core.statistics import NORMAL, score_interval, student
from vitscope.results.over_seeds import Measured, OverSeeds, difference, holm, over_seeds

REPLICATES = 200
# standard deviations of the mean over 60 images by seed, image, and both together
WORLDS = {
    "no seeds": (0.0, 1.0, 1.0),
    "no images": (1.0, 0.0, 0.0),
    "images alone": (0.0, 1.0, 0.0),
    "both, additive": (1.0, 1.0, 0.0),
    "both, and together": (1.0, 1.0, 1.0),
    "seeds above all": (3.0, 1.0, 1.0),
    "paired by image": (0.5, 0.0, 1.0),
}


@functools.cache
def weights(n: int) -> np.ndarray:
    """(n, 1 + replicates) of the bootstrap, each column summing to 1."""
    drawn = poisson_weights(np.arange(n), seed=0, replicates=REPLICATES)
    return drawn / drawn.sum(0)


def trainings(
    rng: np.random.Generator, seeds: int, world: tuple[float, float, float], n: int, drawn: np.ndarray
) -> list[Measured]:
    """One number of every training, measured on the same images, around a truth of 0."""
    by_seed, by_image, by_both = world
    wide = math.sqrt(n)
    x = by_seed * rng.standard_normal((seeds, 1)) + wide * by_image * rng.standard_normal(n)
    x = x + wide * by_both * rng.standard_normal((seeds, n))
    found = []
    for row in x @ drawn:
        low, high = few_interval(row[0], standard_error(row[1:]), n)
        found.append(Measured(float(row[0]), float(low), float(high), n, row))
    return found


def coverage(seeds: int, world: tuple[float, float, float], draws: int, n: int = 60) -> float:
    rng, drawn = np.random.default_rng(seeds), weights(n)
    inside = 0
    for _ in range(draws):
        found = over_seeds(trainings(rng, seeds, world, n, drawn))
        inside += found.low < 0 < found.high
    return inside / draws


QUICK = [("no seeds", 2), ("seeds above all", 2), ("both, additive", 2), ("both, and together", 3)]
QUICK += [("paired by image", 3), ("seeds above all", 3), ("no images", 5), ("images alone", 5)]


@pytest.mark.parametrize(("world", "seeds"), QUICK)
def test_the_truth_is_covered(world: str, seeds: int) -> None:
    assert 0.93 < coverage(seeds, WORLDS[world], draws=400) < 0.998  # 0.95 and what 400 draws leave open


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_the_truth_is_covered_often_enough_and_not_always(
    world: tuple[float, float, float], seeds: int
) -> None:
    assert 0.943 < coverage(seeds, world, draws=5000) < 0.995


def right_or_wrong(rng: np.random.Generator, seeds: int, n: int, gain: float) -> list[Measured]:
    """Of which images a training is right about: some images are hard for all, some trainings are lucky."""
    ease, luck = rng.normal(1.5, 1.5, n), rng.normal(gain, 0.15, (seeds, 1))
    right = rng.random((seeds, n)) < 1 / (1 + np.exp(-ease - luck))
    found = []
    for row in right.astype(float) @ weights(n):
        low, high = score_interval(row[0], standard_error(row[1:]), n)
        found.append(Measured(float(row[0]), float(low), float(high), n, row))
    return found


@pytest.mark.parametrize("seeds", [2, 3])
def test_differences_of_accuracies_are_covered(seeds: int) -> None:
    """Two arms on the same images; the truth is that of endless images and trainings."""
    rng, n, inside = np.random.default_rng(seeds), 150, 0
    ease, luck = rng.normal(1.5, 1.5, 400_000), rng.normal(0.0, 0.15, 400_000)
    truth = (1 / (1 + np.exp(-ease - luck - 0.3)) - 1 / (1 + np.exp(-ease - luck))).mean()
    for _ in range(300):
        state = rng.bit_generator.state
        plain = right_or_wrong(rng, seeds, n, 0.0)
        after = rng.bit_generator.state
        rng.bit_generator.state = state
        better = right_or_wrong(rng, seeds, n, 0.3)  # the same images and draws
        rng.bit_generator.state = after
        found = over_seeds([difference("accuracy", a, b) for a, b in zip(better, plain, strict=True)])
        inside += found.low < truth < found.high
    assert 0.925 < inside / 300 <= 1


def test_what_seeds_and_images_do_together_counts_once() -> None:
    """Variances of the three parts, by the formula of the mean of many simulated studies."""
    rng, n, seeds = np.random.default_rng(0), 60, 4
    drawn = weights(n)
    found = [over_seeds(trainings(rng, seeds, (0.5, 0.8, 2.0), n, drawn)) for _ in range(300)]
    known = 0.5**2 / seeds + 0.8**2 + 2.0**2 / seeds
    estimated = np.mean([one.seed_error**2 + one.rest_error**2 for one in found])
    factor = (student(n - 1) / NORMAL) ** 2  # of the results' own intervals, for few images
    assert known < estimated < 1.1 * factor * known
    assert np.var([one.value for one in found]) == pytest.approx(known, rel=0.25)


def test_without_replicates_the_interval_is_wider() -> None:
    rng, drawn = np.random.default_rng(0), weights(60)
    known = trainings(rng, 3, (1.0, 1.0, 1.0), 60, drawn)
    bare = [Measured(one.value, one.low, one.high, one.n) for one in known]
    first, second = over_seeds(known), over_seeds(bare)
    assert second.value == first.value
    assert second.seed_error == first.seed_error
    assert second.image_error == pytest.approx(np.mean([one.half for one in known]) / NORMAL)
    assert second.image_error > first.image_error > first.rest_error
    assert second.rest_error == second.image_error


def test_seeds_alone_have_students_interval() -> None:
    values = [1.0, 2.0, 4.0]
    found = over_seeds([Measured(value) for value in values])
    half = student(2) * np.std(values, ddof=1) / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((7 / 3 - half, 7 / 3 + half))


def test_one_training_keeps_its_own_interval() -> None:
    found = over_seeds([Measured(0.9, 0.85, 0.93, 100)])
    assert (found.value, found.low, found.high, found.seeds) == (0.9, 0.85, 0.93, 1)
    assert found.p_value(0.85) == pytest.approx(0.05)
    assert found.p_value(0.93) == pytest.approx(0.05)
    assert found.p_value(0.84) < 0.05 < found.p_value(0.86)


def test_numbers_that_never_differ_are_certain() -> None:
    found = over_seeds([Measured(3.0), Measured(3.0)])
    assert (found.low, found.high) == (3.0, 3.0)
    assert (found.p_value(3.0), found.p_value(2.0)) == (1.0, 0.0)


@pytest.mark.parametrize("seeds", [2, 3, 8])
def test_p_is_the_level_at_which_the_interval_reaches_the_bound(seeds: int) -> None:
    half = math.hypot(student(seeds - 1) * 0.3, NORMAL * 0.2)
    found = OverSeeds(1.0, 1 - half, 1 + half, seeds, 100, 0.3, 0.25, 0.2)
    assert found.p_value(found.low) == pytest.approx(0.05, rel=1e-6)
    assert found.p_value(found.high) == pytest.approx(0.05, rel=1e-6)
    assert found.p_value(1.0) == pytest.approx(1.0)
    assert found.p_value(-1e6) < 0.01


def test_p_of_seeds_alone_is_that_of_students_test() -> None:
    from scipy.stats import ttest_1samp

    values = [0.2, 0.5, 0.1, 0.7]
    found = over_seeds([Measured(value) for value in values])
    for bound in (0.0, 0.3, 1.5):
        assert found.p_value(bound) == pytest.approx(ttest_1samp(values, bound).pvalue, rel=1e-6)


def test_holm_against_the_definition() -> None:
    """By hand: with p sorted, the k-th of m is the largest of (m - j + 1) p_j over j up to k."""
    p = [0.01, 0.04, 0.03, 0.005, math.nan]
    assert holm(p)[:4] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert math.isnan(holm(p)[4])
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = rng.random(6) ** 3
        order = np.argsort(p)
        slow = np.empty(6)
        for k, place in enumerate(order):
            slow[place] = min(1.0, max((6 - j) * p[order[j]] for j in range(k + 1)))
        np.testing.assert_allclose(holm(p.tolist()), slow)


def test_holm_keeps_a_study_from_finding_anything_by_chance() -> None:
    """Of eight comparisons two are real. Uncorrected, one of the others is found in about a quarter of studies."""
    rng, studies, wrong, raw = np.random.default_rng(3), 2000, 0, 0
    for _ in range(studies):
        shared = rng.standard_normal()  # comparisons with the same arm hang together
        z = np.array([4.0, 5.0, *[0.0] * 6]) + 0.6 * shared + 0.8 * rng.standard_normal(8)
        p = [math.erfc(abs(one) / math.sqrt(2)) for one in z]
        wrong += any(one < 0.05 for one in holm(p)[2:])
        raw += any(one < 0.05 for one in p[2:])
    assert wrong / studies < 0.05 + 0.01
    assert raw / studies > 0.15
