import numpy as np
from matplotlib.patches import Rectangle

from vitscope import plots
from vitscope.exams.prediction import PredictionResult
from vitscope.plots.figures import new_panel


def test_bars_are_the_bins_and_few_images_are_faint(prediction_result: PredictionResult) -> None:
    ax = plots.plot_prediction(prediction_result, new_panel(), colour="#123456")
    bars = [p for p in ax.patches if isinstance(p, Rectangle)]
    assert len(bars) == 5
    by_place = sorted(bars, key=lambda bar: bar.get_x())
    np.testing.assert_allclose([b.get_height() for b in by_place], prediction_result.bin_accuracy[10:])
    assert by_place[0].get_alpha() < by_place[1].get_alpha()  # type: ignore[operator]


def test_says_the_numbers_with_their_intervals(prediction_result: PredictionResult) -> None:
    ax = plots.plot_prediction(prediction_result, new_panel())
    text = ax.texts[0].get_text()
    assert "accuracy 90.0 % [88.0, 92.0]" in text
    assert "ECE 4.0 % [2.0, 6.0]" in text
    assert "confidence − accuracy -4.0 %" in text
