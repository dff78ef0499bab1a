from dataclasses import replace

import numpy as np
import pytest

from vitscope import plots
from vitscope.drawing.figures import new_panel
from vitscope.exams.features.covariance import distances
from vitscope.findings.covariance import CovarianceResult
from vitscope.results import UnitRow


@pytest.fixture
def result() -> CovarianceResult:
    units = (UnitRow("a", "stem", 0, 0.0, (4, 6, 6)), UnitRow("b", "conv", 1, 0.5, (8, 3, 3)))
    maps = [1.0 / (1 + distances(6, 6)), 0.5 ** distances(3, 3)]
    value = np.array([1.0, 0.5, 1 / 3, 0.25, 1.0, 0.5])
    return CovarianceResult(
        model="m",
        data="d",
        n=64,
        seed=0,
        units=units,
        stride=np.array([2.0, 4.0]),
        point_unit=np.repeat([0, 1], [36, 9]),
        covariance=np.concatenate(maps) * 3,
        correlation=np.concatenate(maps),
        row_unit=np.repeat([0, 1], [4, 2]),
        radius=np.array([0, 1, 2, 3, 0, 1]),
        value=value,
        low=value - 0.01,
        high=value + 0.01,
    )


def test_lines_run_over_pixels_and_leave_out_the_centre(result: CovarianceResult) -> None:
    ax = plots.covariance(result, new_panel())
    first, second = ax.lines[:2]
    np.testing.assert_array_equal(first.get_xdata(), [2.0, 4.0, 6.0])
    np.testing.assert_allclose(first.get_ydata(), [0.5, 1 / 3, 0.25])
    np.testing.assert_array_equal(second.get_xdata(), [4.0])


def test_maps_and_their_common_scale(result: CovarianceResult) -> None:
    ax = plots.plot_covariance_maps(result, new_panel())
    panels = [child for child in ax.child_axes if child.images]
    assert [panel.get_title() for panel in panels] == ["a", "b"]
    for i, panel in enumerate(panels):
        np.testing.assert_array_equal(panel.images[0].get_array(), result.correlation_map(i))
        assert panel.images[0].get_clim() == (-0.5, 0.5)  # the largest beside the centre point
    assert panels[0].patches[0].get_xy() == (2.5, 2.5)


def test_maps_of_several_models_have_one_scale(result: CovarianceResult) -> None:
    strong = replace(result, correlation=np.clip(1.5 * result.correlation, None, 1.0))
    (plot,) = [one for one in plots.PLOTS["covariance"] if one.common]
    assert plot.common is not None
    common = plot.common([result, strong])
    ax = plot.draw(result, new_panel(), **common)
    assert [panel.images[0].get_clim() for panel in ax.child_axes if panel.images] == [(-0.75, 0.75)] * 2
