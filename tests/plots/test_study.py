"""Figures of a study show what its tables hold."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection

from tests.report.study_tables import a_study
from vitscope import plots
from vitscope.core.errors import BadResult
from vitscope.drawing.figures import new_panel
from vitscope.plots.study import depth_quantities


def test_numbers_of_arms() -> None:
    ax = plots.study_numbers(a_study(), "prediction", "accuracy", ax=new_panel())
    drawn = [np.asarray(line.get_xdata(), float) for line in ax.lines]
    values = sorted(float(v) for line in drawn for v in np.atleast_1d(line))
    assert values == pytest.approx([48, 50, 52, 58, 60, 62])  # two seeds and their mean, in per cent
    bars = [c for c in ax.collections if isinstance(c, LineCollection)]
    ends = [segment[:, 0] for bar in bars for segment in bar.get_segments()]
    np.testing.assert_allclose(ends, [[49, 51], [59, 61]])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["old", "new"]


def test_curves_are_means_with_a_band_over_seeds() -> None:
    ax = plots.study_curves(a_study(), "train_loss", new_panel())
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [2.5, 1.5, 2 / 3 + 0.5])
    band = next(c for c in ax.collections if isinstance(c, PolyCollection)).get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == pytest.approx((2 / 3, 3.0))


def test_depth_has_a_line_per_arm() -> None:
    ax = plots.study_depth(a_study(), "variance", "variance", new_panel())
    np.testing.assert_allclose([line.get_ydata() for line in ax.lines], [[1, 2, 3], [1.1, 2.1, 3.1]])
    np.testing.assert_allclose(ax.lines[0].get_xdata(), [0.0, 0.4, 0.8])
    assert depth_quantities(a_study(), "variance") == ["variance"]


def test_what_is_not_there_is_told() -> None:
    with pytest.raises(BadResult, match="did you mean accuracy"):
        plots.study_numbers(a_study(), "prediction", "acuracy", ax=new_panel())
    with pytest.raises(BadResult, match="no such numbers of 'varience'"):
        plots.study_depth(a_study(), "varience", "variance", new_panel())
    with pytest.raises(BadResult, match="no 'loss'"):
        plots.study_curves(a_study(), "loss", new_panel())
