"""Verdicts on models built so that the answer is known."""

import math

import numpy as np
import torch
from torch import nn

import vitscope as vs
from vitscope.claims import feature_verdicts
from vitscope.exams.features.lesion import summarise
from vitscope.findings.lesion import LesionResult
from vitscope.results import UnitRow


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
