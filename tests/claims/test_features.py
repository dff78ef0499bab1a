"""Verdicts on models and changes for which the answer is known, above all where a count and the effect disagree."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn

import vitscope as vs
from tests.claims.known_changes import fourier_result, variance_result
from tests.claims.test_verdict import MIRRORED
from vitscope.claims import Verdict, feature_verdicts
from vitscope.claims.features import change_verdicts, end_excess, peak_verdicts
from vitscope.core.statistics import Estimate
from vitscope.exams.features.lesion import summarise
from vitscope.findings.lesion import LesionResult
from vitscope.results import UnitRow
from vitscope.results.unit_changes import changes_of


class Known(nn.Module):
    """Two convolutions whose branch is known: a scaled copy raises the variance, a negative blur lowers it."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 3, 1, bias=False)
        self.a, self.b = (nn.Conv2d(3, 3, 3, padding=1, groups=3, bias=False) for _ in range(2))
        with torch.no_grad():
            self.stem.weight.copy_(torch.eye(3)[:, :, None, None])
            for conv in (self.a, self.b):
                conv.weight.zero_()
                conv.weight[:, 0, 1, 1] = gain
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.a(x)
        x = x + self.b(x)
        return self.head(x.mean((2, 3)))


def verdicts(gain: float) -> dict[str, str]:
    generator = torch.Generator().manual_seed(0)
    data = (torch.randn(64, 3, 8, 8, generator=generator), torch.arange(64) % 2)
    results = vs.diagnose(Known(gain), data)
    return {v.statement: v.judgement for v in feature_verdicts("known", results)}


def test_signs_follow_the_branch():
    rising, falling = verdicts(0.5), verdicts(-0.5)
    assert rising["Convs raise spatial variance"] == "holds"
    assert rising["variance peaks at stage ends"] == "holds"
    assert falling["Convs raise spatial variance"] == "does not hold"
    assert falling["variance peaks at stage ends"] == "does not hold"
    assert (
        rising["Convs raise high frequencies"] == "inconclusive"
    )  # a scaled copy leaves relative amplitudes alone


class Stages(nn.Module):
    """Residual units that mix channels a little, and between stages everything anew (or not)."""

    def __init__(self, anew: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 12, 1)
        self.units = nn.ModuleList(nn.Conv2d(12, 12, 3, padding=1) for _ in range(9))
        self.steps = nn.ModuleList(nn.Conv2d(12, 12, 2, stride=2) for _ in range(2))
        self.head = nn.Linear(12, 2)
        self.anew = anew

    def forward(self, x):
        x = self.stem(x)
        for i, unit in enumerate(self.units):
            x = x + 0.05 * unit(x)
            if self.anew and i in (2, 5):
                x = torch.sin(30 * self.steps[i // 3](x))
        return self.head(x.mean((2, 3)))


def block_verdict(anew: bool):
    generator = torch.Generator().manual_seed(0)
    data = (torch.randn(160, 3, 16, 16, generator=generator), torch.arange(160) % 2)
    (found,) = feature_verdicts("m", vs.diagnose(Stages(anew), data, ["cka"], batch_size=32))
    return found


def test_stages_that_begin_anew_are_blocks():
    found = block_verdict(anew=True)
    assert (found.claim, found.judgement) == ("D4", "holds")
    assert found.statement == "stages are blocks of similar units"
    plain = block_verdict(anew=False)
    assert (plain.statement, plain.judgement) == ("no blocks of similar units", "holds")


def test_every_verdict_carries_its_evidence():
    generator = torch.Generator().manual_seed(0)
    data = (torch.randn(16, 3, 8, 8, generator=generator), torch.arange(16) % 2)
    found = feature_verdicts("known", vs.diagnose(Known(0.5), data))
    assert {v.claim for v in found} == {"D1", "D3"}  # F1 is about two trainings
    for verdict in found:
        assert verdict.statistic
        assert "holds if the 95 % interval lies" in verdict.decided_by
        assert verdict.low <= verdict.value <= verdict.high or math.isnan(verdict.low)


def lesion_verdicts(position: str, lost: int, gained: int = 0) -> dict[str, str]:
    """Of a CNN of two stages in which only the units at one place matter."""
    units = tuple(
        UnitRow(name, "conv", stage, 0.0) for name, stage in (("a", 0), ("b", 0), ("c", 1), ("d", 1))
    )
    places = ("first", "last", "first", "last")
    changed = np.array([lost - gained if place == position else 0 for place in places])
    products = np.diag([lost + gained if place == position else 0 for place in places])
    result = LesionResult(
        model="m",
        data="d",
        seed=0,
        units=units,
        position=places,
        kept=(),
        **summarise(units, places, n=200, right=150, changed=changed, products=products),
    )
    return {v.statement: v.judgement for v in feature_verdicts("m", {"lesion": result}) if v.claim == "D5"}


def test_lesions_at_the_beginning_and_at_the_end_of_a_stage():
    (statement,) = lesion_verdicts("first", 60)
    assert statement == "Convs hurt more at the beginning of a stage than at its end"
    assert lesion_verdicts("first", 60) == {statement: "holds"}
    assert lesion_verdicts("last", 60) == {statement: "does not hold"}
    assert lesion_verdicts("first", 5, 4) == {statement: "inconclusive"}


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
    mean = result.kind_change.value
    narrow = dataclasses.replace(result, kind_change=Estimate(mean, mean - 0.1, mean + 0.1))
    found = changes_of(narrow.summary(), "mlp")
    assert found is not None
    assert found.mean.estimate == pytest.approx((2.0, 1.9, 2.1))
    later = changes_of(narrow.summary(), "mlp", beyond=0.3)
    assert later is not None
    assert later.mean.estimate == pytest.approx((3.0, 2.5, 3.5))  # of part of them nothing was measured
    assert changes_of(narrow.summary(), "mixer") is None


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


def judged_peaks(*ends: float, half: float = 0.1):
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
    verdict = judged_peaks(5, 5, 5, -60)  # three of four stages peak: a count says "holds"
    assert verdict.value < 0
    assert verdict.judgement == "does not hold"
    assert verdict.evidence == ("highest after the last unit in 3 of 4 stages; 4 stages from -85.7 to +4.9 %")


def test_peaks_and_valleys() -> None:
    assert judged_peaks(20, 30, 25, 40).judgement == "holds"
    assert judged_peaks(-20, -30, -25, -40).judgement == "does not hold"
    assert judged_peaks(-20, 30, -25, 12, half=10).judgement == "inconclusive"
    assert judged_peaks(-20, 10).judgement == "does not hold"


@pytest.mark.parametrize("ratio", [1.0, 1.02, 1.5])
def test_exchanging_ends_and_others_mirrors(ratio: float) -> None:
    up, down = (
        judged_peaks(*[100 * (ratio - 1)] * 3, half=3),
        judged_peaks(*[100 * (1 / ratio - 1)] * 3, half=3),
    )
    assert down.value == pytest.approx(-up.value)
    assert down.judgement == MIRRORED[up.judgement]


def test_nothing_is_said_of_attention_or_single_units() -> None:
    assert (
        peak_verdicts("m", variance_result([("conv", 0.2, 1.0), ("conv", 0.3, 1.0), ("msa", 0.6, 1.0)], 0.1))
        == []
    )
    assert peak_verdicts("m", variance_result([("conv", 0.2, 1.0)], 0.1)) == []
