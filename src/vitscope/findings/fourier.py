"""What `fourier` finds: result, reading and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.curves import colour_bar, plot_change, plot_depth
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import MODELS, depth_colours, grid
from vitscope.results import About, Result, UnitRow, tidy
from vitscope.results.codec import stored_as
from vitscope.results.numbers import reads
from vitscope.results.unit_changes import UnitChanges, changes_in_words


@dataclass(frozen=True, eq=False, kw_only=True)
class FourierResult(UnitChanges, Result, exam="fourier", after="prediction", version=3):
    """Log amplitude relative to frequency 0: along the diagonal, a row per unit and frequency; over rings, likewise.

    `change` is at the end of the diagonal, one number per unit.
    """

    about = About(
        title="Fourier analysis",
        shows="Log amplitude of the feature map after each unit at its highest frequency, relative to "
        "frequency 0, averaged over channels and images. A unit across which the line falls is a "
        "low-pass filter; one across which it rises is a high-pass filter.",
        papers="In the paper, attention (grey) lowers the high frequencies, except in the first layers, "
        "while convolutions and MLPs (white) raise them.",
        misleads="Maps of different size end at different frequencies, and a change of scale or offset "
        "moves the whole curve: compare the change across a unit on one grid, not levels of "
        "different depths or models.",
    )
    measures = ("delta_log_amplitude", "change", "radial_log_amplitude")

    row_unit: np.ndarray  # index of the unit of each row of the diagonal
    frequency: np.ndarray  # f = fy = fx, radians per point
    ring_unit: np.ndarray  # index of the unit of each ring
    ring_frequency: np.ndarray  # |f|, radians per point
    ring: Estimate[np.ndarray] = field(metadata=stored_as("ring_value", "ring_low", "ring_high"))

    @property
    def highest(self) -> np.ndarray:
        """Row of each unit's highest frequency on the diagonal."""
        return np.flatnonzero(np.diff(self.row_unit, append=len(self.units)))

    def table(self) -> pd.DataFrame:
        """Quantities `delta_log_amplitude` (diagonal), `radial_log_amplitude`, and `change`.

        The change is at the highest frequency of the diagonal, paired by image: across each unit, and the mean
        over each kind.
        """
        n, units = self.n, self.units
        rows, of_rings = ([units[i] for i in owner] for owner in (self.row_unit, self.ring_unit))
        end = self.frequency[self.highest]
        parts = [
            tidy("delta_log_amplitude", *self.estimate, n, rows, frequency=self.frequency),
            self.change_rows(frequency=end),
            tidy("radial_log_amplitude", *self.ring, n, of_rings, frequency=self.ring_frequency),
        ]
        return pd.concat(parts, ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """Each unit at the end of its diagonal, and each kind; units with no frequency but 0 are left out."""
        table = self.table()
        table = table[table["quantity"] != "radial_log_amplitude"]
        top = table.groupby("unit")["frequency"].transform("max")
        chosen = ((table["frequency"] == top) & (top > 0)) | table["unit"].isna()
        return table[chosen].reset_index(drop=True)


CORNER = math.sqrt(2.0)  # of the frequency plane, in units of pi


@figure("fourier", "At the highest frequency of each map. Dotted where the map size changes.")
def plot_fourier(result: FourierResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Log amplitude at each unit's highest frequency against depth, over bands for MSA and subsampling."""
    ax = axes_or_new(ax)
    rows = result.highest
    meaningful = result.frequency[rows] > 0
    highest = result.estimate.each(lambda numbers: np.where(meaningful, numbers[rows], np.nan))
    grids = [u.map_shape[1:] if u.map_shape else None for u in result.units]
    same = np.array([True, *[a == b for a, b in pairwise(grids)]])
    plot_depth(ax, result.units, highest, colour, connected=same)
    ax.set_ylabel("Δ log amplitude")
    return ax


@figure(
    "fourier", "Change across each unit at that frequency; below 0 it is a low-pass filter.", "fourier_change"
)
def plot_fourier_change(
    result: FourierResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Change of the log amplitude at the highest frequency across each unit that keeps the grid."""
    ax = axes_or_new(ax)
    plot_change(ax, result.units, result.change, colour)
    ax.set_ylabel("Change of Δ log amplitude")
    return ax


@figure("fourier", "Along the half diagonal, one line per unit, coloured by depth.", "fourier_spectrum")
def plot_fourier_spectrum(
    result: FourierResult, ax: mpl.Axes | None = None, colour: str | None = None
) -> mpl.Axes:
    """Log amplitude against frequency on the diagonal, one line per unit, coloured by depth."""
    ax = axes_or_new(ax)
    _draw_spectra(ax, result.units, result.row_unit, result.frequency, result.value, 1.0)
    ax.set_xlabel("Frequency (radians per point)")
    return ax


@figure(
    "fourier", "Over all directions: mean over rings of the frequency plane, by radius.", "fourier_radial"
)
def plot_fourier_radial(
    result: FourierResult, ax: mpl.Axes | None = None, colour: str | None = None
) -> mpl.Axes:
    """Log amplitude against the radius in the frequency plane, one line per unit, coloured by depth."""
    ax = axes_or_new(ax)
    _draw_spectra(ax, result.units, result.ring_unit, result.ring_frequency, result.ring.value, CORNER)
    ax.set_xlabel("Frequency |f| (radians per point)")
    return ax


def _draw_spectra(
    ax: mpl.Axes,
    units: Sequence[UnitRow],
    owner: np.ndarray,
    frequency: np.ndarray,
    value: np.ndarray,
    furthest: float,
) -> None:
    """A line for each unit, the rows whose `owner` it is; the axis reaches to `furthest`, in units of pi."""
    for i, unit in enumerate(units):
        x, y = frequency[owner == i] / math.pi, value[owner == i]
        ax.plot(x, y, color=depth_colours()(unit.depth), linewidth=1.3, alpha=0.9)
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0] + [1.25] * (furthest > 1.0)
    ax.set_xticks(ticks, ["π" if tick == 1.0 else f"{tick:g}π" if tick else "0" for tick in ticks])
    ax.set_xlim(0.0, furthest)
    ax.set_ylabel("Δ log amplitude")
    grid(ax)
    colour_bar(ax)


@reads("fourier")
def _reading(result: FourierResult) -> str:
    return changes_in_words(result, "high frequencies change")
