import math

import pytest

from tests.claims.known_changes import variance_result
from tests.claims.test_verdict import MIRRORED
from vitscope.claims.features import end_excess, peak_verdicts


def test_excess_of_a_stage_is_relative_and_changes_its_sign() -> None:
    assert end_excess([1.0, 3.0], [1.0, 3.0], [1.0, 3.0]) == (1.0, 1.0, 1.0)
    assert end_excess([3.0, 1.0], [3.0, 1.0], [3.0, 1.0]) == (-1.0, -1.0, -1.0)
    assert end_excess([1.0, 2.0, 3.0], [0] * 3, [0] * 3)[0] == pytest.approx(2 * 1.5 / 4.5)
    assert math.isnan(end_excess([0.0, 0.0], [0.0, 0.0], [0.0, 0.0])[0])


def test_its_interval_follows_from_those_of_the_levels() -> None:
    """By small steps: 2 (l - o) / (l + o) with l = 3 +- 0.1 and o = 1 +- 0.02."""
    value, low, high = end_excess([1.0, 3.0], [0.98, 2.9], [1.02, 3.1])
    by_last = (2 * (3.1 - 1) / (3.1 + 1) - 2 * (2.9 - 1) / (2.9 + 1)) / 2
    by_other = (2 * (3 - 0.98) / (3 + 0.98) - 2 * (3 - 1.02) / (3 + 1.02)) / 2
    assert (high - low) / 2 == pytest.approx(math.hypot(by_last, by_other), rel=1e-2)
    assert value == (low + high) / 2


def judged(*ends: float, half: float = 0.1):
    """Stages of three units at 100, in each of which the last one differs by so much."""
    changes: list[tuple[str, float, float]] = []
    level = 0.0
    for end in ends:
        for target in (0.0, 0.0, end):
            changes.append(("conv", 0.5, target - level))
            level = target
    (verdict,) = peak_verdicts("m", variance_result(changes, half, [i // 3 for i in range(3 * len(ends))]))
    return verdict


def test_three_small_peaks_do_not_outweigh_what_the_others_lack() -> None:
    verdict = judged(5, 5, 5, -60)  # three of four stages peak: a count says "holds"
    assert verdict.value < 0
    assert verdict.judgement == "does not hold"
    assert verdict.evidence == ("highest after the last unit in 3 of 4 stages; 4 stages from -85.7 to +4.9 %")


def test_peaks_and_valleys() -> None:
    assert judged(20, 30, 25, 40).judgement == "holds"
    assert judged(-20, -30, -25, -40).judgement == "does not hold"
    assert judged(-20, 30, -25, 12, half=10).judgement == "inconclusive"
    assert judged(-20, 10).judgement == "does not hold"


@pytest.mark.parametrize("ratio", [1.0, 1.02, 1.5])
def test_exchanging_ends_and_others_mirrors(ratio: float) -> None:
    up, down = judged(*[100 * (ratio - 1)] * 3, half=3), judged(*[100 * (1 / ratio - 1)] * 3, half=3)
    assert down.value == pytest.approx(-up.value)
    assert down.judgement == MIRRORED[up.judgement]


def test_nothing_is_said_of_attention_or_single_units() -> None:
    assert (
        peak_verdicts("m", variance_result([("conv", 0.2, 1.0), ("conv", 0.3, 1.0), ("msa", 0.6, 1.0)], 0.1))
        == []
    )
    assert peak_verdicts("m", variance_result([("conv", 0.2, 1.0)], 0.1)) == []
