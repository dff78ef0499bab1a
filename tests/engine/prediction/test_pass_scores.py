"""Averages over passes against float64 loops."""

import math

import numpy as np
import pytest
import torch

from vitscope.engine.prediction.pass_scores import RunningMean, entropy


def test_average_and_entropies_equal_loops_over_images_and_passes() -> None:
    passes = torch.randn(6, 5, 4, generator=torch.Generator().manual_seed(0)) * 2
    mean = RunningMean()
    for logits in passes:
        mean.add(logits)
    for image in range(5):
        p = [[math.exp(float(z)) for z in one[image]] for one in passes]
        p = [[z / sum(row) for z in row] for row in p]
        average = [sum(row[k] for row in p) / 6 for k in range(4)]
        np.testing.assert_allclose(mean.log_mean()[image].exp(), average, rtol=1e-6)
        total = -sum(q * math.log(q) for q in average)
        data = sum(-sum(q * math.log(q) for q in row) for row in p) / 6
        np.testing.assert_allclose(mean.spreads()[image], [total, data, total - data], rtol=1e-5)


def test_passes_that_agree_have_no_epistemic_part_and_no_other_is_negative() -> None:
    logits = torch.randn(50, 7, generator=torch.Generator().manual_seed(1)) * 5
    same, once = RunningMean(), RunningMean()
    once.add(logits)
    for _ in range(7):
        same.add(logits)
    assert float(same.spreads()[:, 2].max()) < 1e-12
    assert (once.spreads()[:, 2] == 0).all()
    torch.testing.assert_close(once.spreads()[:, 0], once.spreads()[:, 1], rtol=0, atol=1e-12)
    other = RunningMean()
    for step in range(4):
        other.add(logits + 1e-6 * step)
    assert (other.spreads()[:, 2] >= 0).all()


def test_two_certain_passes_that_contradict_each_other_are_one_bit_of_model() -> None:
    mean = RunningMean()
    mean.add(torch.tensor([[2000.0, 0.0, 0.0]]))
    mean.add(torch.tensor([[0.0, 2000.0, 0.0]]))
    assert mean.spreads()[0].tolist() == pytest.approx([math.log(2), 0.0, math.log(2)], abs=1e-12)
    assert mean.log_mean()[0, :2].tolist() == pytest.approx([-math.log(2)] * 2)
    assert torch.isfinite(mean.log_mean()).all()


def test_entropy_of_certainty_and_of_ignorance() -> None:
    assert entropy(torch.tensor([[0.0, -math.inf]])).item() == 0.0
    assert entropy(torch.full((1, 10), 0.1).log()).item() == pytest.approx(math.log(10))
