from dataclasses import replace

import numpy as np
import pytest

from vitscope import plots
from vitscope.core.statistics import Estimate
from vitscope.drawing.figures import PLOTS, new_panel
from vitscope.findings.passes import CHANGES, QUANTITIES, PassesResult


@pytest.fixture
def result() -> PassesResult:
    value = np.linspace(0.1, 0.9, 8 * len(QUANTITIES)).reshape(8, -1)
    change = np.zeros((8, len(CHANGES)))
    return PassesResult(
        model="m",
        data="d",
        n=90,
        seed=0,
        source="MC dropout, p = 0.3",
        inserted=True,
        p=0.3,
        clock="CPU time",
        batches=3,
        passes=np.array([0, 1, 2, 5] * 2),
        smoothed=np.repeat([False, True], 4),
        value=value,
        low=value - 0.01,
        high=value + 0.01,
        change=Estimate(change, change - 0.1, change + 0.1),
        drawn=np.zeros((len(CHANGES), 3)),
    )


def without_smoothing(result: PassesResult, rows: slice) -> PassesResult:
    names = ("passes", "smoothed", "value", "low", "high")
    own = {name: getattr(result, name)[rows] for name in names}
    return replace(result, **own, change=result.change.at(rows))


@pytest.mark.parametrize(
    ("draw", "quantity"),
    [(plots.passes, "nll"), (plots.plot_passes_accuracy, "accuracy"), (plots.plot_passes_ece, "ece")],
)
def test_lines_over_passes_and_the_model_itself_as_a_level(result: PassesResult, draw, quantity: str) -> None:
    column = QUANTITIES.index(quantity)
    ax = draw(result, new_panel())
    plain, level, smoothed = ax.lines
    np.testing.assert_array_equal(plain.get_xdata(), [1, 2, 5])
    np.testing.assert_array_equal(plain.get_ydata(), result.value[1:4, column])
    np.testing.assert_array_equal(smoothed.get_ydata(), result.value[5:, column])
    assert set(level.get_ydata()) == {result.value[0, column]}
    assert (ax.get_xlabel(), ax.get_xscale()) == ("Passes", "log")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["as it is", "as it is, smoothed"]
    alone = draw(without_smoothing(result, slice(0, 4)), new_panel())
    assert alone.get_legend() is None


def test_spread_and_throughput(result: PassesResult) -> None:
    ax = plots.plot_passes_spread(without_smoothing(result, slice(0, 4)), new_panel())
    data, model = (line.get_ydata() for line in ax.lines)
    np.testing.assert_array_equal(data, result.value[1:4, QUANTITIES.index("aleatoric")])
    np.testing.assert_array_equal(model, result.value[1:4, QUANTITIES.index("epistemic")])
    assert [line.get_marker() for line in ax.lines] == ["o", "s"]
    assert len({line.get_color() for line in ax.lines}) == 1
    ax = plots.plot_passes_throughput(result, new_panel())
    assert [text.get_text() for text in ax.texts] == ["1", "2", "5"] * 2
    np.testing.assert_allclose(
        ax.lines[0].get_xdata(), 100 * result.value[1:4, QUANTITIES.index("throughput")]
    )


def test_members_are_called_so_and_nothing_is_said_in_words(result: PassesResult) -> None:
    members = without_smoothing(result, slice(1, 4))
    assert plots.passes(members, new_panel()).get_xlabel() == "Members"
    alone = without_smoothing(result, slice(0, 1))
    for plot in PLOTS["passes"]:
        ax = plot.draw(alone, new_panel())
        assert [text.get_text() for text in ax.texts] == ["no branch of the model can take dropout"]
