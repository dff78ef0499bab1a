"""Verdicts on models built so that the answer is known."""

import torch
from torch import nn

import vitscope as vs
from vitscope.claims import feature_verdicts


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


def test_every_verdict_carries_its_evidence():
    generator = torch.Generator().manual_seed(0)
    data = (torch.randn(16, 3, 8, 8, generator=generator), torch.arange(16) % 2)
    found = feature_verdicts("known", vs.diagnose(Known(0.5), data))
    assert {v.claim for v in found} == {"D1", "D3", "F1"}
    assert all(any(c.isdigit() for c in v.found) for v in found)
