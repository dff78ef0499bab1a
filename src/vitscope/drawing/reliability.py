"""Reliability diagrams, bars per class, and colours of classes: what figures of several tasks are made of."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import numpy as np

from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_bars, nothing
from vitscope.drawing.style import INK, grid

MANY = 25  # more classes than that are not named one by one
FEW = 0.001  # bins with a smaller share of what was predicted are drawn faintly
BELOW = 0.17  # height of the strip in which shares or counts stand
_FIRST = ("#2f7dc8", "#e8b23a", "#1f9174", "#a75fb0", "#7fc4e8", "#7a4f2a", "#b7c94a", "#e68fac", "#20366b")


def class_colour(k: int) -> tuple[float, float, float]:
    """Of class `k`: chosen for the first ones, then turned by the golden angle, which repeats nothing for long."""
    if k < len(_FIRST):
        red, green, blue = mpl.to_rgb(_FIRST[k])
        return red, green, blue
    return colorsys.hsv_to_rgb(k * 0.6180339887 % 1.0, (0.75, 0.5)[k % 2], (0.85, 0.6, 0.95)[k % 3])


def draw_reliability(
    ax: mpl.Axes,
    count: np.ndarray,
    accuracy: Estimate[np.ndarray],
    ece: Estimate[float],
    gap: float,
    what: str,
    colour: str,
) -> mpl.Axes:
    """Accuracy of `what` in each confidence bin, against the diagonal of perfect calibration.

    `count` (bins,) are the predictions in each, `gap` is mean confidence minus accuracy.
    """
    if not count.sum():
        return nothing(ax, f"there are no {what}")
    share = count / count.sum()
    said = [f"{100 * part:.1f} %" if part >= FEW else "< 0.1 %" for part in share]
    draw_bins(ax, count, accuracy, share >= FEW, said, colour)
    value, low, high = ece.scaled(100)
    told = f"ECE {value:.1f} % [{low:.1f}, {high:.1f}],  confidence − accuracy {100 * gap:+.1f} points"
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
