import matplotlib
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import Polygon, Rectangle

from tests.plots.conftest import UNITS
from vitscope.plots.depth import draw_bands, plot_depth
from vitscope.plots.figures import new_panel
from vitscope.plots.style import MSA, SUBSAMPLE


def spans(ax: matplotlib.axes.Axes) -> list[tuple[float, float, tuple[float, ...]]]:
    """Start, end and colour of every band."""
    found = []
    for patch in ax.patches:
        assert isinstance(patch, (Rectangle, Polygon))
        box = patch.get_path().transformed(patch.get_patch_transform()).get_extents()
        found.append((round(box.x0, 6), round(box.x1, 6), to_rgb(patch.get_facecolor())))
    return found


def test_a_band_spans_the_step_of_its_unit() -> None:
    ax = new_panel()
    draw_bands(ax, UNITS)
    grey, blue = to_rgb(MSA[0]), to_rgb(SUBSAMPLE[0])
    assert spans(ax) == [(0.0, 0.2, grey), (0.4, 0.6, blue), (0.6, 0.8, grey), (0.8, 0.9, blue)]
    legend = ax.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == ["MSA", "subsampling", "MLP"]


def test_lines_pass_through_the_values_and_break_where_told() -> None:
    ax = new_panel()
    value = np.arange(6.0)
    connected = np.array([True, True, True, False, True, False])
    plot_depth(ax, UNITS, value, value - 1, value + 1, "#123456", connected)
    solid = [line for line in ax.lines if line.get_linestyle() == "-"]
    dotted = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert [list(line.get_ydata()) for line in solid] == [[0, 1, 2], [3, 4], [5]]
    assert [list(line.get_xdata()) for line in solid] == [[0.0, 0.2, 0.4], [0.6, 0.8], [0.9]]
    assert [list(line.get_ydata()) for line in dotted] == [[2, 3], [4, 5]]
    assert ax.get_xlim() == (0.0, 1.0)


def test_missing_values_are_left_out() -> None:
    ax = new_panel()
    value = np.array([1.0, np.nan, 2.0, np.nan, np.nan, 3.0])
    plot_depth(ax, UNITS, value, value, value, "#123456")
    assert np.isfinite(ax.get_ylim()).all()
