from dataclasses import replace

import numpy as np
import pytest

from vitscope import plots
from vitscope.core.statistics import Estimate
from vitscope.drawing.figures import PLOTS, new_panel
from vitscope.findings.temporal import QUANTITIES, RATIOS, TemporalResult


@pytest.fixture
def result() -> TemporalResult:
    value = np.linspace(0.1, 0.9, 4 * len(QUANTITIES)).reshape(4, -1)
    ratio = np.full((4, len(RATIOS)), np.nan)
    ratio[1::2] = [[0.9, 0.8, 0.7, 1.1, 0.5], [1.0, 0.9, 0.8, 0.7, 0.6]]
    trace = np.linspace(0.2, 0.8, 40).reshape(4, 10)
    return TemporalResult(
        model="m",
        data="d",
        n=90,
        seed=0,
        why="",
        sequences=3,
        blocks=9,
        block=10,
        rate=0.8,
        previous=5,
        passes=5,
        source="MC dropout, p = 0.3",
        clock="CPU time",
        timed=30,
        way=("one pass", "one pass", "mc dropout", "mc dropout"),
        spatial=np.array([False] * 4),
        temporal=np.array([False, True] * 2),
        value=value,
        low=value - 0.01,
        high=value + 0.01,
        change=Estimate(value, value, value),
        ratio=Estimate(ratio, ratio - 0.1, ratio + 0.1),
        throughput=np.array([[1.0, 1.0, 1.0], [0.9, 0.8, 1.0], [0.2, 0.1, 0.3], [0.19, 0.1, 0.3]]),
        labels=np.array([0.9, 0.8, 1.0]),
        trace=trace,
        drawn=np.zeros((0, 0, 0)),
    )


def test_ratios_of_what_is_smoothed(result: TemporalResult) -> None:
    ax = plots.temporal(result, new_panel())
    drawn = [bars.lines[0] for bars in ax.containers]
    assert [line.get_marker() for line in drawn] == ["o", "s"]
    assert {line.get_color() for line in drawn} == {
        plots.style.MODELS[0]
    }  # that of the model, whatever the way
    np.testing.assert_array_equal([line.get_ydata() for line in drawn], result.ratio.value[1::2])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one pass", "mc dropout"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["error", "NLL", "Brier", "ECE", "flips"]


def test_a_pair_of_points_for_every_way(result: TemporalResult) -> None:
    ax = plots.plot_temporal_throughput(result, new_panel())
    pairs = [line for line in ax.lines if len(line.get_xdata()) == 2]
    np.testing.assert_allclose([line.get_xdata() for line in pairs], [[100.0, 90.0], [20.0, 19.0]])
    nll = result.value[:, QUANTITIES.index("nll")]
    np.testing.assert_allclose(np.concatenate([line.get_ydata() for line in pairs]), nll)


def test_the_trace_is_that_of_one_pass(result: TemporalResult) -> None:
    ax = plots.plot_temporal_trace(result, new_panel())
    np.testing.assert_array_equal([line.get_ydata() for line in ax.lines], result.trace[:2])


def test_no_stream_is_said_in_words(result: TemporalResult) -> None:
    for plot in PLOTS["temporal"]:
        ax = plot.draw(replace(result, why="the data is no stream of frames"), new_panel())
        assert [text.get_text() for text in ax.texts] == ["the data is no stream of frames"]
