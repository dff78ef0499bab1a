from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from vitscope import plots
from vitscope.drawing.figures import new_panel
from vitscope.drawing.style import styled
from vitscope.exams.prediction.prediction import PredictionResult

CLASSES = ("class_count", "class_predicted")


def test_bars_are_the_bins_and_few_images_are_faint(prediction_result: PredictionResult) -> None:
    ax = plots.plot_prediction(prediction_result, new_panel(), colour="#123456")
    bars = [p for p in ax.patches if isinstance(p, Rectangle)]
    assert len(bars) == 5
    by_place = sorted(bars, key=lambda bar: bar.get_x())
    np.testing.assert_allclose([b.get_height() for b in by_place], prediction_result.bin_accuracy.value[10:])
    assert by_place[0].get_alpha() < by_place[1].get_alpha()  # type: ignore[operator]


def test_says_the_numbers_with_their_intervals(prediction_result: PredictionResult) -> None:
    ax = plots.plot_prediction(prediction_result, new_panel())
    text = ax.texts[0].get_text()
    assert "accuracy 90.0 % [88.0, 92.0]" in text
    assert "ECE 4.0 % [2.0, 6.0]" in text
    assert "confidence − accuracy -4.0 points" in text


def test_every_bin_says_how_many_images_it_has(prediction_result: PredictionResult) -> None:
    ax = plots.plot_prediction(prediction_result, new_panel())
    assert [text.get_text() for text in ax.texts[1:]] == ["5", "20", "30", "40", "105"]
    (segments,) = (c.get_segments() for c in ax.collections)
    assert all(text.get_position()[1] < 0 <= s[0][1] for text, s in zip(ax.texts[1:], segments, strict=True))


def test_error_bars_are_the_intervals(prediction_result: PredictionResult) -> None:
    ax = plots.plot_prediction(prediction_result, new_panel())
    (segments,) = (c.get_segments() for c in ax.collections)
    filled = prediction_result.bin_count > 0
    np.testing.assert_allclose([s[0][1] for s in segments], prediction_result.bin_accuracy.low[filled])
    np.testing.assert_allclose([s[1][1] for s in segments], prediction_result.bin_accuracy.high[filled])


def test_wrong_predictions_stand_on_right_ones(prediction_result: PredictionResult) -> None:
    ax = plots.plot_prediction_confidence(prediction_result, new_panel(), colour="#123456")
    bars = [p for p in ax.patches if isinstance(p, Rectangle)]
    right, wrong = bars[:60], bars[60:]
    np.testing.assert_allclose([b.get_height() for b in right], prediction_result.histogram[:, 0] / 200)
    np.testing.assert_allclose([b.get_y() for b in wrong], [b.get_height() for b in right])
    assert sorted(line.get_xdata()[0] for line in ax.lines) == [0.86, 0.9]  # type: ignore[index]


def test_classes_are_sorted_and_those_without_images_left_out(prediction_result: PredictionResult) -> None:
    ax = plots.plot_prediction_classes(prediction_result, new_panel())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["cat", "dog"]
    points = [container.lines[0].get_ydata() for container in ax.containers]  # type: ignore[union-attr]
    np.testing.assert_allclose(points, [[0.8, 1.0], [0.9, 0.85]])


@pytest.mark.parametrize("plot", [plots.plot_prediction_confidence, plots.plot_prediction_classes])
def test_the_legend_covers_no_data(plot: Any, prediction_result: PredictionResult) -> None:
    with styled():
        ax = plot(prediction_result, new_panel())
        ax.figure.canvas.draw()
    legend, inside = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert legend.y0 >= inside.y1
    assert legend.x1 <= ax.figure.bbox.x1


def test_many_classes_have_no_names(prediction_result: PredictionResult) -> None:
    many = {name: np.repeat(getattr(prediction_result, name)[:2], 20) for name in CLASSES}
    by_class = prediction_result.by_class.each(lambda numbers: np.repeat(numbers[:2], 20, axis=0))
    names = tuple(str(k) for k in range(40))
    result = replace(prediction_result, class_names=names, by_class=by_class, **many)
    ax = plots.plot_prediction_classes(result, new_panel())
    assert ax.get_xlabel() == "Class, by accuracy"
