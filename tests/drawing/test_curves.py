import numpy as np
import pytest

from tests.findings.robustness_results import noise_result
from vitscope import plots
from vitscope.core.errors import BadArgument
from vitscope.core.statistics import Estimate
from vitscope.drawing.curves import draw_curve, frequency_axis, in_colours, legend_above
from vitscope.drawing.figures import new_panel


def test_a_curve_is_drawn_in_per_cent() -> None:
    ax = new_panel()
    x, value = np.array([0.0, 1.0]), np.array([0.5, 0.25])
    draw_curve(ax, x, Estimate(value, value - 0.1, value + 0.1), "#123456", "mine", "--s")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [50, 25])
    assert (ax.lines[0].get_color(), ax.lines[0].get_linestyle()) == ("#123456", "--")
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([band.min(), band.max()], [15, 60])
    legend_above(ax)
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["mine"]


def test_frequencies_are_in_units_of_pi() -> None:
    ax = new_panel()
    frequency_axis(ax, 1.0)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "0.2π", "0.4π", "0.6π", "0.8π", "π"]
    frequency_axis(ax, 0.3)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "0.1π", "0.2π", "0.3π"]


def test_a_model_keeps_its_colour_where_others_have_nothing_to_show() -> None:
    models = in_colours(["a", "", "c"], ["red", "green", "blue"], shown=len)
    assert models == [("a", "red"), ("c", "blue")]


def test_a_model_without_a_colour_is_not_left_out_in_silence() -> None:
    results = [noise_result(0.1, 0.3, model="cnn"), noise_result(0.3, 0.1, model="vit")]
    with pytest.raises(BadArgument, match="colours are 1 for 2 models; expected one for each"):
        plots.plot_frequency_noises(results, new_panel(), colours=["red"])
