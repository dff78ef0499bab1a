from dataclasses import replace

import numpy as np

from vitscope import plots
from vitscope.drawing.figures import new_panel
from vitscope.findings.variance import VarianceResult


def test_shows_the_values(variance_result: VarianceResult) -> None:
    ax = plots.plot_variance(variance_result, new_panel(), colour="#123456")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), variance_result.value)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [u.depth for u in variance_result.units])
    assert ax.get_yscale() == "linear"
    assert ax.get_ylim()[0] == 0.0


def test_levels_far_apart_get_a_logarithmic_axis(variance_result: VarianceResult) -> None:
    value = np.array([0.01, 0.1, 1.0, 2.0, np.nan, 0.5])
    wide = replace(variance_result, value=value, low=0.9 * value, high=1.1 * value)
    ax = plots.plot_variance(wide, new_panel())
    assert ax.get_yscale() == "log"
    low, high = ax.get_ylim()
    assert 0 < low < 0.01
    assert high > 2.0
