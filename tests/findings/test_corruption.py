import numpy as np
import pytest

from vitscope import plots
from vitscope.core.statistics import Estimate
from vitscope.drawing.figures import new_panel
from vitscope.engine.corruption_passes import rows_of
from vitscope.exams.robustness.corruption import _nothing
from vitscope.findings.corruption import CorruptionResult
from vitscope.results.condition_rows import QUANTITIES, ConditionTable

TYPES, SEVERITIES = ("shot_noise", "snow", "fog"), (1, 3, 5)


def made(model: str = "m", best: float = 0.9) -> CorruptionResult:
    rows = rows_of(TYPES, SEVERITIES)
    accuracy = np.linspace(best, best - 0.4, len(rows))
    value = np.repeat(accuracy[:, None], len(QUANTITIES), 1)
    drop = best - accuracy
    scores = ConditionTable(50, value, value - 0.02, value + 0.03, Estimate(drop, drop - 0.01, drop + 0.01))
    common = {
        "model": model,
        "data": "d",
        "n": 50,
        "seed": 0,
        "images": "generated",
        "how": "",
        "obstacle": "",
    }
    return CorruptionResult(
        **common, types=TYPES, severities=SEVERITIES, rows=rows, scores=scores, headlines=()
    )


@pytest.fixture
def result() -> CorruptionResult:
    return made()


def test_a_line_per_family_from_clean_images_on(result: CorruptionResult) -> None:
    ax = plots.corruption(result, new_panel())
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["noise", "weather"]
    line = ax.containers[1].lines[0]
    expected = [result.of("clean"), *(result.of("weather", severity) for severity in SEVERITIES)]
    np.testing.assert_allclose(line.get_ydata(), 100 * np.array(expected))
    np.testing.assert_allclose(line.get_xdata(), [0, 1, 3, 5], atol=0.1)
    assert ax.get_xlabel() == "Severity (generated corruptions)"


def test_a_bar_per_type_under_the_clean_accuracy(result: CorruptionResult) -> None:
    ax = plots.plot_corruption_types(result, new_panel(), colour="#123456")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["shot noise", "snow", "fog"]
    np.testing.assert_allclose(
        [bar.get_height() for bar in ax.patches], [100 * result.of(kind) for kind in TYPES]
    )
    places = [bar.get_x() for bar in ax.patches]
    assert places[1] - places[0] > places[2] - places[1]  # families stand apart
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(dashed[0].get_ydata(), 90.0)
    assert "generated" in ax.get_ylabel()


def test_several_models_on_one_axis(result: CorruptionResult) -> None:
    other = made("other", 0.8)
    ax = plots.plot_corruptions([result, other], new_panel())
    assert [line.get_label() for line in ax.lines] == ["m", "other"]
    np.testing.assert_allclose(
        ax.lines[1].get_ydata(), [80.0, *(100 * other.of("all", severity) for severity in SEVERITIES)]
    )
    bars = plots.plot_corruptions_types([result, other], new_panel())
    assert len(bars.patches) == 6


def test_nothing_to_draw(result: CorruptionResult) -> None:
    common = {"model": "m", "data": "d", "seed": 0, "images": "generated", "how": ""}
    empty = _nothing(common, "images of 5 channels have no corruptions")
    for draw in (plots.plot_corruption, plots.plot_corruption_types):
        ax = draw(empty, new_panel())
        assert [text.get_text() for text in ax.texts] == ["these images cannot be corrupted"]
    assert len(plots.plot_corruptions([empty, result], new_panel()).lines) == 1
    assert plots.plot_corruptions([empty], new_panel()).texts
