import numpy as np

from tests.findings.head_results import emptied, low_pass_result
from vitscope import plots
from vitscope.drawing.figures import new_panel


def test_a_line_per_layer_from_all_to_what_is_left() -> None:
    result = low_pass_result()
    ax = plots.plot_low_pass(result, new_panel())
    assert len(ax.lines) == 2
    left = [result.of(f"remaining_{k}")[0][3] for k in (1, 2, 4, 8)]
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [1.0, *left])
    np.testing.assert_array_equal(ax.lines[1].get_xdata(), [0, 1, 2, 4, 8])
    assert ax.get_yscale() == "log"


def test_rates_against_depth() -> None:
    result = low_pass_result()
    ax = plots.plot_low_pass_rate(result, new_panel())
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), result.of("rate")[0][result.layers])


def test_a_model_without_attention_says_so() -> None:
    for draw in (plots.plot_low_pass, plots.plot_low_pass_rate):
        assert draw(emptied(low_pass_result()), new_panel()).texts
