"""The number of a comparison, of one training of each arm, on results of real exams."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from tests.studies.small_study import results, training
from vitscope.claims.verdict import Rule
from vitscope.results.over_seeds import Measured
from vitscope.studies.contrasts import logarithm, measure_comparison, weighted
from vitscope.studies.design import Comparison
from vitscope.studies.quantities import NotMeasured, measure

NLL = "prediction.nll"
_PLACES = {"a": ("plain", 0), "b": ("plain", 1), "c": ("plain", 2), "d": ("broadcast", 0)}


def trained() -> dict:
    """Four models, as if each were an arm."""
    return {arm: (results()[place], training()[place]) for arm, place in _PLACES.items()}


def asked(quantity: str = NLL, **said) -> Comparison:
    return Comparison(
        "?", "?", said.pop("of", None), said.pop("against", None), quantity, Rule("below"), **said
    )


def of_few(n: int) -> float:
    """Student's quantile, and n - 1 where a bootstrap divides by n."""
    return float(scipy.stats.t.ppf(0.975, n - 1)) * math.sqrt(n / (n - 1))


def replicates(arm: str, quantity: str = NLL) -> np.ndarray:
    drawn = measure(quantity, *trained()[arm]).drawn
    assert drawn is not None
    return drawn


def test_an_arm_alone_and_a_difference() -> None:
    nll = {arm: exams["prediction"].nll for arm, (exams, _) in trained().items()}
    assert measure_comparison(asked(of="a"), trained()).value == nll["a"]
    found = measure_comparison(asked(of="a", against="b"), trained())
    assert found.value == pytest.approx(nll["a"] - nll["b"])
    assert found.low < found.value < found.high


def test_a_contrast_of_differences_replicate_by_replicate() -> None:
    found = measure_comparison(asked(contrast={"a": 1, "b": -1, "c": -1, "d": 1}), trained())
    nll = {arm: exams["prediction"].nll for arm, (exams, _) in trained().items()}
    assert found.value == pytest.approx((nll["a"] - nll["b"]) - (nll["c"] - nll["d"]))
    by_hand = (replicates("a") - replicates("b")) - (replicates("c") - replicates("d"))
    np.testing.assert_allclose(found.drawn, by_hand, atol=1e-12)
    half = of_few(found.n) * math.sqrt(np.mean((by_hand[1:] - by_hand[1:].mean()) ** 2))
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half), rel=1e-5)
    assert half > 0


def test_images_that_all_arms_saw_drop_out_of_a_contrast() -> None:
    """a - a is 0 on any images, which errors that were added up would not know."""
    same = {"a": trained()["a"], "b": trained()["a"]}
    found = measure_comparison(asked(contrast={"a": 2, "b": -2}), same)
    assert (found.value, found.low, found.high) == (0, 0, 0)


@pytest.mark.parametrize("log", [False, True])
def test_a_slope_is_that_of_least_squares(log: bool) -> None:
    places = {"a": 1, "b": 2, "c": 4, "d": 8}
    found = measure_comparison(asked(slope=places, log=log), trained())
    scale = np.log if log else np.asarray
    drawn = np.stack([scale(replicates(arm)) for arm in places])
    slopes = np.polyfit(scale(np.array([1.0, 2.0, 4.0, 8.0])), drawn, 1)[0]
    np.testing.assert_allclose(found.drawn, slopes, rtol=1e-9, atol=1e-12)
    assert found.value == pytest.approx(slopes[0])
    half = of_few(found.n) * np.std(slopes[1:])
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half), rel=1e-5)


def test_a_slope_against_what_the_trainings_recorded() -> None:
    models = {
        arm: (exams, {**row, "train_loss": 1.0 + place**2})
        for place, (arm, (exams, row)) in enumerate(trained().items())
    }
    found = measure_comparison(asked(slope=dict.fromkeys("abcd", "training.train_loss")), models)
    nll = [exams["prediction"].nll for exams, _ in models.values()]
    assert found.value == pytest.approx(np.polyfit([1.0, 2.0, 5.0, 10.0], nll, 1)[0])


def test_a_slope_needs_places_that_differ() -> None:
    models = {arm: (exams, {**row, "train_loss": 1.0}) for arm, (exams, row) in trained().items()}
    with pytest.raises(NotMeasured, match="do not differ in what the slope is against"):
        measure_comparison(asked(slope=dict.fromkeys("ab", "training.train_loss")), models)


def test_a_relative_change() -> None:
    found = measure_comparison(asked(of="a", against="b", log=True), trained())
    np.testing.assert_allclose(found.drawn, np.log(replicates("a") / replicates("b")), atol=1e-12)
    assert found.value == pytest.approx(math.log(replicates("a")[0] / replicates("b")[0]))


def test_a_logarithm_carries_the_interval_along() -> None:
    found = logarithm(Measured(2.0, 1.0, 4.0, 10), NLL)
    assert (found.value, found.low, found.high) == pytest.approx((math.log(2), 0, math.log(4)))
    assert math.isnan(logarithm(Measured(2.0, -1.0, 5.0, 10), NLL).low)
    with pytest.raises(NotMeasured, match=r"prediction\.nll is 0, which has no logarithm"):
        logarithm(Measured(0.0, 0.0, 1.0, 10), NLL)


def test_without_replicates_errors_add_up() -> None:
    found = {"a": Measured(1.0, 0.7, 1.3, 10), "b": Measured(5.0, 4.6, 5.4, 8)}
    sum_of = weighted({"a": 1, "b": -1}, found)
    assert (sum_of.value, sum_of.low, sum_of.high) == pytest.approx((-4, -4.5, -3.5))
    assert sum_of.n == 8


def test_other_images_are_no_pairs() -> None:
    """Arms whose images differ have errors of their own: the interval is wider than that of the pair."""
    models = trained()
    exams = dict(models["b"][0])
    other = replace(exams["prediction"], seed=1)
    models["b"] = ({**exams, "prediction": other}, models["b"][1])
    apart = measure_comparison(asked(contrast={"a": 1, "b": -1}), models)
    paired = measure_comparison(asked(contrast={"a": 1, "b": -1}), trained())
    assert apart.drawn is None
    assert apart.value == pytest.approx(paired.value)
    ends = [measure(NLL, *models[arm]) for arm in "ab"]
    assert apart.high - apart.value == pytest.approx(math.hypot(*((e.high - e.low) / 2 for e in ends)))
