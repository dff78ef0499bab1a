"""Figures of the Fourier exam."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from vitscope.exams.features.fourier import FourierResult
from vitscope.drawing.depth import plot_change, plot_depth
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import DEPTH, MODELS, grid
from vitscope.results import UnitRow

CORNER = math.sqrt(2.0)  # of the frequency plane, in units of pi


@figure("fourier", "At the highest frequency of each map. Dotted where the map size changes.")
def plot_fourier(result: FourierResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Log amplitude at each unit's highest frequency against depth, over bands for MSA and subsampling."""
    ax = axes_or_new(ax)
    rows = result.highest
    meaningful = result.frequency[rows] > 0
    value, low, high = (
        np.where(meaningful, a[rows], np.nan) for a in (result.value, result.low, result.high)
    )
    grids = [u.map_shape[1:] if u.map_shape else None for u in result.units]
    same = np.array([True, *[a == b for a, b in pairwise(grids)]])
    plot_depth(ax, result.units, value, low, high, colour, connected=same)
    ax.set_ylabel("Δ log amplitude")
    return ax


@figure(
    "fourier", "Change across each unit at that frequency; below 0 it is a low-pass filter.", "fourier_change"
)
def plot_fourier_change(result: FourierResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Change of the log amplitude at the highest frequency across each unit that keeps the grid."""
    ax = axes_or_new(ax)
    plot_change(ax, result.units, result.change, result.change_low, result.change_high, colour)
    ax.set_ylabel("Change of Δ log amplitude")
    return ax


@figure("fourier", "Along the half diagonal, one line per unit, coloured by depth.", "fourier_spectrum")
def plot_fourier_spectrum(result: FourierResult, ax: Axes | None = None, colour: str | None = None) -> Axes:
    """Log amplitude against frequency on the diagonal, one line per unit, coloured by depth."""
    ax = axes_or_new(ax)
    _draw_spectra(ax, result.units, result.row_unit, result.frequency, result.value, 1.0)
    ax.set_xlabel("Frequency")
    return ax


@figure(
    "fourier", "Over all directions: mean over rings of the frequency plane, by radius.", "fourier_radial"
)
def plot_fourier_radial(result: FourierResult, ax: Axes | None = None, colour: str | None = None) -> Axes:
    """Log amplitude against the radius in the frequency plane, one line per unit, coloured by depth."""
    ax = axes_or_new(ax)
    _draw_spectra(ax, result.units, result.ring_unit, result.ring_frequency, result.ring_value, CORNER)
    ax.set_xlabel("Frequency |f|")
    return ax


def _draw_spectra(
    ax: Axes,
    units: Sequence[UnitRow],
    owner: np.ndarray,
    frequency: np.ndarray,
    value: np.ndarray,
    furthest: float,
) -> None:
    """A line for each unit, the rows whose `owner` it is; the axis reaches to `furthest`, in units of pi."""
    for i, unit in enumerate(units):
        x, y = frequency[owner == i] / math.pi, value[owner == i]
        ax.plot(x, y, color=DEPTH(unit.depth), linewidth=1.3, alpha=0.9)
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0] + [1.25] * (furthest > 1.0)
    ax.set_xticks(ticks, ["π" if tick == 1.0 else f"{tick:g}π" if tick else "0" for tick in ticks])
    ax.set_xlim(0.0, furthest)
    ax.set_ylabel("Δ log amplitude")
    grid(ax)
    drawing = ax.get_figure()
    if drawing is not None:
        bar = drawing.colorbar(ScalarMappable(Normalize(0, 1), DEPTH), ax=ax, pad=0.02, aspect=30)
        bar.set_label("Normalised depth")
        bar.outline.set_visible(False)
