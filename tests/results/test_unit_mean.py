import math

import numpy as np
import pytest

from vitscope.results.unit_changes import mean_over_units


def test_the_mean_of_units_has_the_mean_of_their_ends() -> None:
    effect = np.array([1.0, 2.0, 4.0, -3.0])
    found = mean_over_units(effect, effect - [0.1, 0.2, 0.3, 0.4], effect + 0.5)
    assert found.estimate == pytest.approx((1.0, 0.75, 1.5))
    assert found.spread("layer") == "4 layers from -3 to 4"
    assert mean_over_units([1.0], [0.0], [2.0]).spread() == "1 unit"


def test_what_was_measured_image_by_image_goes_first() -> None:
    assert mean_over_units([-2.0, -1.0], [-2.1, -1.1], [-1.9, -0.9], (-1.53, -1.47)).estimate == (
        -1.5,
        -1.53,
        -1.47,
    )


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_the_mean_over_units_is_covered_however_their_errors_go_together(correlation: float) -> None:
    rng = np.random.default_rng(0)
    truth = np.array([-1.0, 0.3, 2.0])
    together, alone = rng.normal(size=(4000, 1)), rng.normal(size=(4000, 3))
    seen = truth + math.sqrt(correlation) * together + math.sqrt(1 - correlation) * alone
    found = [mean_over_units(one, one - 1.96, one + 1.96) for one in seen]
    covered = np.mean([f.low <= truth.mean() <= f.high for f in found])
    assert covered > 0.95 - 3 * math.sqrt(0.95 * 0.05 / 4000)


def test_mirrors() -> None:
    effect = np.array([1.0, -0.5, 3.0, 7.0])
    one = mean_over_units(effect, effect - 0.1, effect + 0.3)
    other = mean_over_units(-effect, -effect - 0.3, -effect + 0.1)
    assert other.estimate == pytest.approx((-one.value, -one.high, -one.low))


def test_an_unknown_interval_stays_unknown() -> None:
    unknown = [math.nan] * 3
    assert math.isnan(mean_over_units([1.0, 2.0, 3.0], unknown, unknown).low)
