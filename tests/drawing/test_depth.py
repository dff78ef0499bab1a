import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Polygon, Rectangle

from tests.findings.known_results import UNITS
from vitscope.core.statistics import Estimate
from vitscope.drawing.curves import draw_bands, plot_change, plot_depth
from vitscope.drawing.figures import new_panel
from vitscope.drawing.style import MSA, MSA_BAR, SUBSAMPLE


def spans(ax: Axes) -> list[tuple[float, float, tuple[float, ...]]]:
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
    plot_depth(ax, UNITS, Estimate(value, value - 1, value + 1), "#123456", connected)
    solid = [line for line in ax.lines if line.get_linestyle() == "-"]
    dotted = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert [list(line.get_ydata()) for line in solid] == [[0, 1, 2], [3, 4], [5]]
    assert [list(line.get_xdata()) for line in solid] == [[0.0, 0.2, 0.4], [0.6, 0.8], [0.9]]
    assert [list(line.get_ydata()) for line in dotted] == [[2, 3], [4, 5]]
    assert ax.get_xlim() == (0.0, 1.0)


def test_missing_values_are_left_out() -> None:
    ax = new_panel()
    value = np.array([1.0, np.nan, 2.0, np.nan, np.nan, 3.0])
    plot_depth(ax, UNITS, Estimate(value, value, value), "#123456")
    assert np.isfinite(ax.get_ylim()).all()


def test_changes_stand_over_their_steps_with_their_intervals() -> None:
    ax = new_panel()
    change = np.array([np.nan, -1.0, 0.5, np.nan, -0.2, 0.3])
    plot_change(ax, UNITS, Estimate(change, change - 0.1, change + 0.2), "#123456")
    bars = {
        round(bar.get_x() + bar.get_width() / 2, 6): bar for bar in ax.patches if isinstance(bar, Rectangle)
    }
    assert sorted(bars) == [0.1, 0.3, 0.7, 0.85]
    assert [bars[x].get_height() for x in sorted(bars)] == [-1.0, 0.5, -0.2, 0.3]
    assert to_rgb(bars[0.1].get_facecolor()) == to_rgb(MSA_BAR)
    assert to_rgb(bars[0.3].get_facecolor()) == to_rgb("#123456")
    segments = [[tuple(point) for point in s] for s in ax.collections[0].get_segments()]  # type: ignore[attr-defined]
    np.testing.assert_allclose(segments[0], [(0.1, -1.1), (0.1, -0.8)])
    assert len(segments) == 4
