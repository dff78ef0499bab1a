import numpy as np

from tests.findings.head_results import attention_result
from vitscope.drawing.curves import nothing, plot_heads
from vitscope.drawing.figures import new_panel


def test_layers_are_a_line_and_heads_are_dots() -> None:
    result, ax = attention_result(), new_panel()
    plot_heads(ax, result, "entropy", "#123456", "mean")
    dots, line = ax.lines
    np.testing.assert_array_equal(line.get_ydata(), result.of("entropy")[0][result.layers])
    np.testing.assert_array_equal(line.get_xdata(), [u.depth for u in result.units])
    np.testing.assert_array_equal(dots.get_ydata(), result.of("entropy")[0][~result.layers])
    assert line.get_label() == "mean"


def test_nothing_says_why_in_one_line() -> None:
    ax = nothing(new_panel(), "no attention here")
    assert [t.get_text() for t in ax.texts] == ["no attention here"]
    assert not ax.axison
