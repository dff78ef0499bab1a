import numpy as np

from tests.findings.robustness_results import shape_result
from vitscope import plots
from vitscope.drawing.figures import new_panel


def test_shares_against_the_cutoff() -> None:
    ax = plots.shape_bias(shape_result(), new_panel())
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(lines["low frequencies"].get_ydata(), [20, 70])  # not the swap of phase
    np.testing.assert_allclose(lines["high frequencies"].get_xdata(), [0.1, 0.3])


def test_phase_and_several_models() -> None:
    bars = plots.plot_shape_bias_phase(shape_result(), new_panel()).patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], [50, 30, 20])
    ax = plots.plot_shape_biases([shape_result(), shape_result(0)], new_panel())
    curves = [line for line in ax.lines if line.get_marker() == "o"]
    assert len(curves) == 1
    np.testing.assert_allclose(curves[0].get_ydata(), [25, 87.5])


def test_without_pairs() -> None:
    for draw in (plots.plot_shape_bias, plots.plot_shape_bias_phase):
        assert "classified rightly" in draw(shape_result(0), new_panel()).texts[0].get_text()
    assert "classified rightly" in plots.plot_shape_biases([shape_result(0)], new_panel()).texts[0].get_text()
