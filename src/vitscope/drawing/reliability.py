"""Reliability diagrams, as figures of several tasks have them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_bars, nothing
from vitscope.drawing.style import INK, grid
from vitscope.results.calibrated import Calibrated

FEW = 0.001  # bins with a smaller share of what was predicted are drawn faintly
BELOW = 0.17  # height of the strip in which shares or counts stand


def draw_reliability(ax: mpl.Axes, result: Calibrated, what: str, colour: str) -> mpl.Axes:
    """Accuracy of `what` in each confidence bin, against the diagonal of perfect calibration."""
    count = result.bin_count
    if not count.sum():
        return nothing(ax, f"there are no {what}")
    share = count / count.sum()
    said = [f"{100 * part:.1f} %" if part >= FEW else "< 0.1 %" for part in share]
    draw_bins(ax, count, result.bin_accuracy, share >= FEW, said, colour)
    gap = 100 * result.quantity("signed_ece")
    told = f"{result.told('ece', 'ECE')},  confidence − accuracy {gap:+.1f} points"
    ax.text(0.0, 1.03, told.replace("-", "−"), transform=ax.transAxes, fontsize=9)
    ax.set_ylabel(f"Accuracy of {what}")
    return ax


def draw_bins(
    ax: mpl.Axes,
    count: np.ndarray,
    accuracy: Estimate[np.ndarray],
    enough: np.ndarray,
    said: Sequence[str],
    colour: str,
) -> None:
    """A bar for each confidence bin that holds anything, faint unless `enough` does; what is said of it below."""
    bins = len(count)
    centres = (np.arange(bins) + 0.5) / bins
    filled = count > 0
    for chosen, opacity in ((filled & enough, 0.75), (filled & ~enough, 0.25)):
        if chosen.any():
            height = accuracy.value[chosen]
            ax.bar(centres[chosen], height, 0.9 / bins, color=colour, alpha=opacity, linewidth=0)
    draw_bars(ax, centres[filled], accuracy.at(filled), fmt="none", ecolor=INK, elinewidth=0.8, capsize=1.5)
    ax.plot([0, 1], [0, 1], "--", color=INK, linewidth=1.0, alpha=0.7)
    for k in np.flatnonzero(filled).tolist():
        ax.text(centres[k], -0.5 * BELOW, said[k], rotation=90, ha="center", va="center", fontsize=7)
    ax.axhline(0.0, color=INK, linewidth=0.8)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(-BELOW, 1.0)  # what is said stands below the bars, where no interval crosses it
    ax.set_yticks(np.linspace(0.0, 1.0, 6))
    ax.set_xlabel("Confidence")
    grid(ax)
