"""Averages over passes against float64 loops."""

import math
import time

import numpy as np
import pytest
import torch

from vitscope.engine.pass_scores import RunningMean, Stopwatch, entropy, relative_throughput


def test_throughput_and_its_interval_equal_those_of_a_ratio_of_sums() -> None:
    generator = np.random.default_rng(0)
    times = (
        generator.uniform(0.5, 1.5, (40, 1)) * np.array([1.0, 2.0, 5.0]) * generator.normal(1, 0.02, (40, 3))
    )
    value, low, high = relative_throughput(times.sum(0), times.T @ times, 40)
    np.testing.assert_allclose(value, times[:, 0].sum() / times.sum(0))
    for j in (1, 2):
        residual = times[:, 0] - value[j] * times[:, j]
        error = np.sqrt(40 / 39 * (residual**2).sum()) / times[:, j].sum()
        np.testing.assert_allclose(
            [low[j], high[j]], value[j] + np.array([-1, 1]) * 2.022691 * error, rtol=1e-4
        )
        assert low[j] < 1 / (1.0, 2.0, 5.0)[j] < high[j]
    assert (value[0], low[0], high[0]) == pytest.approx((1.0, 1.0, 1.0), abs=1e-6)


def test_one_piece_has_no_interval() -> None:
    times = np.array([[1.0, 4.0]])
    value, low, high = relative_throughput(times.sum(0), times.T @ times, 1)
    np.testing.assert_allclose(value, [1.0, 0.25])
    assert np.isnan([low, high]).all()


def test_the_watch_counts_work_and_not_waiting() -> None:
    watch = Stopwatch(torch.device("cpu"))
    assert watch.clock == "CPU time"
    before = time.process_time()
    with watch.running():
        time.sleep(0.2)
    assert watch.seconds <= time.process_time() - before
    waited = watch.seconds
    with watch.running():
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
    assert watch.seconds >= waited + 0.05
    with watch.from_zero():
        pass
    assert watch.seconds < waited + 0.05


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
