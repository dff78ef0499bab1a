import numpy as np
import pytest
import torch

from vitscope.engine.loss.landscape_passes import PointScores, score, summarise


def test_means_and_intervals_from_sums() -> None:
    random = np.random.default_rng(0)
    nll, reference = random.gamma(2.0, size=(2, 40))
    right = random.random(40) < 0.7
    sums = score(*(torch.from_numpy(a) for a in (nll, right, reference)))
    found = summarise(sums.numpy(), 40)
    t = 2.022690920  # Student, 39 degrees of freedom
    for name, values in (("nll", nll), ("rise", nll - reference)):
        half = t * values.std(ddof=1) / np.sqrt(40)
        expected = [values.mean(), values.mean() - half, values.mean() + half]
        assert [found[f"{name}{end}"] for end in ("", "_low", "_high")] == pytest.approx(expected, rel=1e-4)
    assert found["accuracy"] == right.mean()
    for end in (found["accuracy_low"], found["accuracy_high"]):  # Wilson: where the share is 1.96 errors away
        assert abs(right.mean() - end) == pytest.approx(1.959964 * np.sqrt(end * (1 - end) / 40), rel=1e-6)


def test_places_that_are_not_finite_stay_so_and_leave_the_others_alone() -> None:
    scores = PointScores(3)
    good, zeros, right = torch.ones(4).double(), torch.zeros(4).double(), torch.ones(4, dtype=torch.bool)
    bad = torch.tensor([1.0, float("inf"), 1.0, 1.0]).double()
    scores.update(0, score(good, right, zeros))
    scores.update(2, score(bad, right, zeros))
    found = summarise(scores.finish()["sums"], 4)
    assert found["nll"].tolist() == [1.0, 0.0, float("inf")]
    assert np.isnan(found["nll_low"][2])
    assert found["accuracy"][0] == found["accuracy_high"][0] == 1.0
    assert found["accuracy_low"][0] == pytest.approx(4 / (4 + 1.959964**2))  # four of four is no certainty
