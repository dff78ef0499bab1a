import numpy as np

from tests.findings.robustness_results import noise_result
from vitscope import plots
from vitscope.drawing.figures import new_panel


def test_drop_and_accuracy_against_frequency() -> None:
    result = noise_result(0.1, 0.3)
    drop = plots.frequency_noise(result, new_panel(), colour="#123456").lines[0]
    np.testing.assert_allclose(drop.get_xdata(), [0.05, 0.35, 0.65, 0.95])
    np.testing.assert_allclose(drop.get_ydata(), [10, 10, 30, 30])
    clean, accuracy = plots.plot_frequency_noise_accuracy(result, new_panel()).lines
    np.testing.assert_allclose(clean.get_ydata(), 90)
    np.testing.assert_allclose(accuracy.get_ydata(), [80, 80, 60, 60])


def test_several_models_on_one_axis() -> None:
    results = [noise_result(0.1, 0.3, model="cnn"), noise_result(0.3, 0.1, model="vit")]
    ax = plots.plot_frequency_noises(results, new_panel())
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["cnn", "vit"]
    first, second = (line for line in ax.lines if line.get_marker() == "o")
    np.testing.assert_allclose(np.array(first.get_ydata()), np.array(second.get_ydata())[::-1])
    assert first.get_color() != second.get_color()
