import time

import numpy as np
import pytest
import torch

from vitscope.engine.throughput import Stopwatch, relative_throughput


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
    watch.reset()
    assert watch.seconds == 0.0
