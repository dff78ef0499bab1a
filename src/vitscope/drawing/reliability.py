"""Reliability diagrams, as figures of several tasks have them."""

from __future__ import annotations

import numpy as np

from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_bars, nothing
from vitscope.drawing.style import INK, grid
from vitscope.results.calibrated import Calibrated

FEW = 0.001  # bins with a smaller share of what was predicted are drawn faintly
BELOW = 0.17  # height of the strip in which shares stand


def draw_reliability(ax: mpl.Axes, result: Calibrated, what: str, colour: str) -> mpl.Axes:
    """Accuracy of `what` in each confidence bin, against the diagonal of perfect calibration."""
    count, accuracy, bins = result.bin_count, result.bin_accuracy, len(result.bin_count)
    if not count.sum():
        return nothing(ax, f"there are no {what}")
    centres = (np.arange(bins) + 0.5) / bins
    share = count / count.sum()
    filled = count > 0
    for chosen, opacity in ((share >= FEW, 0.75), (filled & (share < FEW), 0.25)):
        if chosen.any():
            height = accuracy.value[chosen]
            ax.bar(centres[chosen], height, 0.9 / bins, color=colour, alpha=opacity, linewidth=0)
    draw_bars(ax, centres[filled], accuracy.at(filled), fmt="none", ecolor=INK, elinewidth=0.8, capsize=1.5)
    ax.plot([0, 1], [0, 1], "--", color=INK, linewidth=1.0, alpha=0.7)
    for centre, part in zip(centres[filled], share[filled], strict=True):
        said = f"{100 * part:.1f} %" if part >= FEW else "< 0.1 %"
        ax.text(centre, -0.5 * BELOW, said, rotation=90, ha="center", va="center", fontsize=7)
    ax.axhline(0.0, color=INK, linewidth=0.8)
    gap = 100 * result.quantity("signed_ece")
    told = f"{result.told('ece', 'ECE')},  confidence − accuracy {gap:+.1f} points"
    ax.text(0.0, 1.03, told.replace("-", "−"), transform=ax.transAxes, fontsize=9)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(-BELOW, 1.0)  # shares stand below the bars, where no interval crosses them
    ax.set_yticks(np.linspace(0.0, 1.0, 6))
    ax.set_xlabel("Confidence")
    ax.set_ylabel(f"Accuracy of {what}")
    grid(ax)
    return ax
