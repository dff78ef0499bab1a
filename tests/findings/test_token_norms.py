import numpy as np

from tests.exams.attention.test_token_norms import with_long_tokens
from tests.exams.attention_by_hand import images
from tests.exams.factories import tiny
from vitscope import plots
from vitscope.drawing.figures import new_panel
from vitscope.exams.attention.token_norms import OUTLIERS, token_norms


def test_shows_percentiles_sinks_and_places() -> None:
    result = token_norms(with_long_tokens(), images(6))
    ax = plots.plot_token_norms(result, new_panel())
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), result.of("norm_p50")[0])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), result.of("norm_p99")[0])
    sinks = plots.plot_attention_sinks(result, new_panel())
    lines = {container.get_label(): container.lines[0] for container in sinks.containers}
    rows = np.array(result.row_token) == "prefix 0"
    np.testing.assert_array_equal(lines["prefix 0"].get_ydata(), result.sink.value[rows])
    assert OUTLIERS in lines
    panel = plots.plot_outlier_places(result, new_panel()).child_axes[0]
    most = result.units[int(np.flatnonzero(result.of("outliers")[0])[0])]
    assert panel.get_title().startswith(most.name)
    np.testing.assert_array_equal(
        panel.images[0].get_array(), result.place([unit.name for unit in result.units].index(most.name))
    )


def test_says_what_there_is_not() -> None:
    result = token_norms(tiny(), images(2))
    assert plots.plot_attention_sinks(result, new_panel()).texts
