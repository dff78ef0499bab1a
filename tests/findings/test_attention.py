import numpy as np
import pytest

from tests.findings.head_results import attention_result, emptied
from vitscope import plots
from vitscope.drawing.figures import new_panel


def test_entropy_percentile_and_bound() -> None:
    result = attention_result()
    ax = plots.plot_attention(result, new_panel())
    by_label = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(by_label["mean"].get_ydata(), result.of("entropy")[0][result.layers])
    np.testing.assert_array_equal(by_label["15th percentile"].get_ydata(), result.percentile.value[[0, 3]])
    np.testing.assert_array_equal(by_label["uniform attention"].get_ydata(), [2.0, 3.0])
    assert ax.get_ylim()[1] > 3.0


def test_distance_and_shares() -> None:
    result = attention_result()
    distance = plots.plot_attention_distance(result, new_panel())
    np.testing.assert_array_equal(distance.lines[1].get_ydata(), result.of("distance")[0][result.layers])
    shares = plots.plot_attention_heads(result, new_panel())
    for quantity, line in zip(("similarity", "diagonal", "prefix"), shares.lines, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), result.of(quantity)[0][result.layers])


@pytest.mark.parametrize(
    "draw", [plots.plot_attention, plots.plot_attention_distance, plots.plot_attention_heads]
)
def test_a_model_without_attention_says_so(draw) -> None:
    ax = draw(emptied(attention_result()), new_panel())
    assert ax.texts[0].get_text() == "no attention over the map in this model"
    assert not ax.lines
