from dataclasses import replace

import numpy as np
import pytest

from vitscope import plots
from vitscope.drawing.figures import new_panel
from vitscope.findings.uncertainty import UncertaintyResult
from vitscope.results import UnitRow


@pytest.fixture
def result() -> UncertaintyResult:
    units = tuple(UnitRow(name, "conv", 0, depth, (4, 8, 8)) for name, depth in (("a", 0.0), ("b", 0.5)))
    value = np.array([[1.0, 0.0, 0.0], [2.0, 1.0, 0.2]])
    return UncertaintyResult(
        model="m",
        data="d",
        n=9,
        seed=0,
        units=units,
        passes=8,
        source="MC dropout, p = 0.3",
        value=value,
        low=value - 0.1,
        high=value + 0.1,
    )


@pytest.mark.parametrize(
    ("draw", "column"),
    [(plots.uncertainty, 0), (plots.plot_uncertainty_model, 1), (plots.plot_uncertainty_share, 2)],
)
def test_each_figure_shows_its_quantity(result: UncertaintyResult, draw, column: int) -> None:
    ax = draw(result, new_panel())
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), result.value[:, column])
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [0.0, 0.5])


def test_no_passes_are_said_in_words(result: UncertaintyResult) -> None:
    value = result.value.copy()
    value[:, 1:] = np.nan
    ax = plots.plot_uncertainty_model(replace(result, value=value, passes=0, source=""), new_panel())
    assert [text.get_text() for text in ax.texts] == ["no branch of the model can take dropout"]
