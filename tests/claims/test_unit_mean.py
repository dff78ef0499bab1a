import math
import statistics

import numpy as np
import pytest

from vitscope.claims.unit_mean import mean_over_units

T5 = 2.5705818  # the 97.5 % quantile of Student's t with five degrees of freedom, from a table


def students(effect: np.ndarray) -> tuple[float, float]:
    """The interval of the mean of six numbers."""
    half = T5 * statistics.stdev(effect.tolist()) / math.sqrt(6)
    return float(effect.mean()) - half, float(effect.mean()) + half


def test_is_students_interval_over_units() -> None:
    effect = np.array([1.0, 2.0, 4.0, -3.0, 2.5, 9.0])
    found = mean_over_units(effect, effect - 1e-9, effect + 1e-9, half=0.0)
    assert found.interval == pytest.approx((effect.mean(), *students(effect)), abs=1e-6)
    assert found.over(50) == "6 units and 50 images"
    assert found.scope() == ""


def test_adds_the_error_over_images() -> None:
    effect = np.array([-5.0, 5.0, -4.0, 4.0, -6.0, 6.0])
    plain = mean_over_units(effect, effect - 1, effect + 1, half=0.0)
    wide = mean_over_units(effect, effect - 1, effect + 1, half=2.0)
    assert wide.high - wide.value == pytest.approx(math.hypot(plain.high - plain.value, 2.0))
    assert mean_over_units(effect, effect - 2, effect + 2) == wide  # at most the mean of the units' own


def test_units_that_agree_decide_however_unequal_they_are() -> None:
    effect = np.array([0.1, 0.2, 0.4, 0.8, 1.6, 12.8])
    assert students(effect)[0] < 0  # the one large effect makes Student's interval reach over 0
    found = mean_over_units(effect, effect - 0.05, effect + 0.05)
    assert found.low == pytest.approx(0.05)  # the least that any unit may do
    unsure = mean_over_units(effect, effect - 0.15, effect + 0.15)
    assert unsure.low < 0


def test_few_units_speak_for_themselves_only() -> None:
    found = mean_over_units([-2.0, -1.0], [-2.1, -1.1], [-1.9, -0.9], half=0.03)
    assert found.interval == pytest.approx((-1.5, -1.53, -1.47))
    assert (found.over(1), found.scope("layer")) == ("1 image", "2 layers: speaks for these only")
    assert mean_over_units([1.0], [0.0], [2.0]).scope() == "1 unit: speaks for this one only"


def test_mirrors() -> None:
    effect = np.array([1.0, -0.5, 3.0, 7.0])
    one = mean_over_units(effect, effect - 0.1, effect + 0.3)
    other = mean_over_units(-effect, -effect - 0.3, -effect + 0.1)
    assert (other.value, other.low, other.high) == pytest.approx((-one.value, -one.high, -one.low))


def test_an_unknown_interval_stays_unknown() -> None:
    unknown = [math.nan] * 3
    assert math.isnan(mean_over_units([1.0, 2.0, 3.0], unknown, unknown).low)


@pytest.mark.parametrize(("units", "least", "most"), [(3, 0.73, 0.77), (4, 0.85, 0.9), (6, 0.92, 0.96)])
def test_how_often_it_covers_the_mean_of_normal_units(units: int, least: float, most: float) -> None:
    """As the documentation says: with three or four units the cut at their range makes it narrow."""
    effects = np.random.default_rng(0).normal(size=(4000, units))
    found = [mean_over_units(e, e, e) for e in effects]
    assert least < np.mean([f.low <= 0 <= f.high for f in found]) < most
