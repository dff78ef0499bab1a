import math

import numpy as np

from vitscope import plots
from vitscope.drawing.figures import new_panel
from vitscope.findings.fourier import FourierResult


def test_depth_profile_shows_the_highest_frequencies(fourier_result: FourierResult) -> None:
    ax = plots.plot_fourier(fourier_result, new_panel(), colour="#123456")
    solid = [line for line in ax.lines if line.get_linestyle() == "-"]
    shown = np.concatenate([np.asarray(line.get_ydata()) for line in solid])
    highest = [0.75 * math.pi] * 3 + [0.5 * math.pi] * 2
    np.testing.assert_allclose(shown[:5], [-f * (1 + i) for i, f in enumerate(highest)])
    assert np.isnan(shown[5])  # a 2 x 2 map has no frequency between 0 and pi
    assert len(solid) == 3  # a line per grid
    assert "log amplitude" in ax.get_ylabel()


def test_spectrum_has_a_line_per_unit_at_true_frequencies(fourier_result: FourierResult) -> None:
    ax = plots.plot_fourier_spectrum(fourier_result, new_panel())
    assert len(ax.lines) == 6
    np.testing.assert_allclose(ax.lines[0].get_xdata(), [0, 0.25, 0.5, 0.75])
    np.testing.assert_allclose(ax.lines[3].get_xdata(), [0, 0.5])
    assert len({line.get_color() for line in ax.lines}) == 6  # by depth


def test_radial_spectrum_reaches_beyond_pi(fourier_result: FourierResult) -> None:
    ax = plots.plot_fourier_radial(fourier_result, new_panel())
    assert len(ax.lines) == 6
    x = np.asarray(ax.lines[0].get_xdata(), dtype=float)
    np.testing.assert_allclose(x * math.pi, fourier_result.ring_frequency[fourier_result.ring_unit == 0])
    assert 1.0 < x.max() < ax.get_xlim()[1] == math.sqrt(2)
    np.testing.assert_allclose(np.asarray(ax.lines[0].get_ydata(), dtype=float), -x * math.pi)
