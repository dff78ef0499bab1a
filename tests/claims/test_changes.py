"""D1 and D3 on changes that are known, above all where a count and the effect disagree."""

import dataclasses

import pytest

from tests.claims.known_changes import fourier_result, variance_result
from tests.claims.test_verdict import MIRRORED
from vitscope.claims import Verdict, feature_verdicts
from vitscope.claims.features import change_verdicts
from vitscope.results.unit_changes import changes_of


def judged(kind: str, *changes: float, half: float = 0.01) -> Verdict:
    depths = [(i + 1) / (len(changes) + 1) for i in range(len(changes))]
    result = variance_result([(kind, d, c) for d, c in zip(depths, changes, strict=True)], half)
    return next(v for v in feature_verdicts("m", {"variance": result}) if "raise" in v.statement)


def test_four_of_six_that_rise_do_not_outweigh_a_mean_below_0() -> None:
    verdict = judged("mlp", 0.1, 0.1, 0.1, 0.1, -1.5, -1.4)  # a count of signs says "holds"
    assert verdict.value == pytest.approx(-2.5 / 6)
    assert verdict.judgement == "does not hold"
    assert verdict.evidence == "2 of 6 clearly fall, 4 clearly rise, from -1.5 to +0.1"


def test_one_unit_that_decides_alone_is_told() -> None:
    verdict = judged("mlp", -0.51, 0.1, 0.11, 0.06, 0.08, -0.014)
    assert (verdict.value, verdict.low, verdict.high) == pytest.approx((-0.029, -0.039, -0.019))
    assert verdict.judgement == "does not hold"
    assert verdict.evidence == "2 of 6 clearly fall, 4 clearly rise, from -0.51 to +0.11"


def test_two_units_are_judged_by_the_same_rule() -> None:
    verdict = judged("conv", -1.8, -0.005)  # neither certainly rises, one certainly falls
    assert verdict.judgement == "does not hold"
    assert (verdict.low, verdict.high) == pytest.approx((-0.9125, -0.8925))
    assert judged("conv", 1.8, 0.005).judgement == "holds"
    assert judged("conv", 0.5, -0.5).judgement == "inconclusive"


def test_two_of_three_are_not_enough() -> None:
    assert judged("conv", 0.3, 0.3, -0.61).judgement == "inconclusive"
    assert judged("conv", 0.3, 0.3, -1.5).judgement == "does not hold"
    assert judged("conv", 0.3, 0.3, 0.1).judgement == "holds"


@pytest.mark.parametrize(
    "changes",
    [
        (0.1, 0.1, 0.1, 0.1, -1.5, -1.4),
        (1.0, 1.2, 0.9, 1.1),
        (0.3, 0.3, -0.5),
        (0.2, 0.01),
        (0.5,),
        (0.0, 0.0, 0.0),
    ],
)
@pytest.mark.parametrize("kind", ["msa", "mlp", "conv"])
def test_negated_changes_give_the_mirrored_verdict(kind: str, changes: tuple[float, ...]) -> None:
    one, other = (
        change_verdicts("m", variance_result([(kind, 0.5, sign * c) for c in changes], 0.05))[0]
        for sign in (1, -1)
    )
    assert other.judgement == MIRRORED[one.judgement]
    assert (other.value, other.low, other.high) == pytest.approx((-one.value, -one.high, -one.low))
    for verdict in (one, other):
        decided = verdict.judgement != "inconclusive"
        expected = "holds" if (verdict.value < 0) == (kind == "msa") else "does not hold"
        assert not decided or verdict.judgement == expected


def test_early_msas_are_excepted_from_d1_only() -> None:
    changes = [
        ("msa", 0.1, 5.0),
        ("msa", 0.3, 4.0),
        ("msa", 0.5, -1.0),
        ("msa", 0.7, -1.1),
        ("msa", 0.9, -0.9),
    ]
    (spread,) = change_verdicts("m", variance_result(changes, 0.01))
    assert (spread.claim, spread.value) == ("D3", pytest.approx(1.2))
    (found,) = change_verdicts("m", fourier_result(changes, 0.01))
    assert found.claim == "D1"
    assert (found.judgement, found.value) == ("holds", pytest.approx(-1.0))
    assert "beyond the first third" in found.statistic
    assert found.evidence == (
        "3 of 3 clearly fall, 0 clearly rise, from -1.1 to -0.9; early ones +4.5 [+4.49, +4.51]"
    )


def test_only_early_msas_decide_nothing() -> None:
    assert change_verdicts("m", fourier_result([("msa", 0.1, -1.0)], 0.01)) == []


def test_the_measured_interval_of_a_kind_is_used() -> None:
    result = variance_result([("mlp", 0.2, 1.0), ("mlp", 0.4, 3.0)], 0.5)
    narrow = dataclasses.replace(
        result, kind_change_low=result.kind_change - 0.1, kind_change_high=result.kind_change + 0.1
    )
    found = changes_of(narrow.summary(), "mlp")
    assert found is not None
    assert found.mean.interval == pytest.approx((2.0, 1.9, 2.1))
    later = changes_of(narrow.summary(), "mlp", beyond=0.3)
    assert later is not None
    assert later.mean.interval == pytest.approx((3.0, 2.5, 3.5))  # of part of them nothing was measured
    assert changes_of(narrow.summary(), "mixer") is None
