"""Colours and axes that all figures share."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np

from vitscope.drawing import mpl

INK = "#1c2024"  # text and axes; a page replaces it by its own text colour
# One colour per model, in a fixed order: told apart with every colour vision, legible on white and on black.
MODELS = ("#2f7dc8", "#d1661f", "#1f9174", "#a75fb0", "#9c7c14", "#6b7682")
MSA = ("#808080", 0.26)  # colour and opacity of a band
MSA_BAR = "#8b929b"
SUBSAMPLE = ("#3f8fe0", 0.26)
LEAST_SPAN = 1e-3  # of a y axis, relative to its numbers; below is how computers round

RC: dict[str, Any] = {
    "font.size": 10.0,
    "font.sans-serif": ["DejaVu Sans"],
    "axes.titlesize": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.formatter.useoffset": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "svg.fonttype": "none",
}


def styled(**more: str) -> AbstractContextManager[None]:
    """Draw in this style inside the block; nothing of it stays afterwards."""
    settings: Any = {**RC, **more}
    return mpl.rc_context(settings)


@cache
def depth_colours() -> mpl.Colormap:
    """Colours of units, from the first to the last."""
    return mpl.LinearSegmentedColormap.from_list("depth", ["#2f7dc8", "#8a6fae", "#c8637c", "#d1661f"])


def model_colour(position: int) -> str:
    """The colour of the model at this position of a comparison."""
    return MODELS[position % len(MODELS)]


def grid(ax: mpl.Axes) -> None:
    """Faint horizontal lines behind everything."""
    ax.grid(axis="y", color="#808080", alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)


def logarithmic(ax: mpl.Axes) -> None:
    """A logarithmic y axis with numbers of one style on it."""
    ax.set_yscale("log")
    ax.autoscale(axis="y")
    ax.yaxis.set_major_formatter(mpl.OneStyle())
    ax.yaxis.set_minor_formatter(mpl.OneStyle())


def legible(ax: mpl.Axes) -> None:
    """Nothing of a drawn figure is finer than its numbers, and no marker is cut in half by an axis."""
    if ax.name != "rectilinear" or not ax.lines:
        return
    low, high = sorted(ax.get_ylim())
    least = LEAST_SPAN * max(abs(low), abs(high))
    if high - low < least:
        middle, reach = (low + high) / 2, (-least / 2, least / 2)
        ends = [middle + end for end in (reach[::-1] if ax.yaxis_inverted() else reach)]
        ax.set_ylim(*ends, auto=None)  # what is added later may still widen it
    for line in ax.lines:
        if line.get_marker() in ("", " ", "None", None):
            continue
        points = (ax.transScale + ax.transLimits).transform(line.get_xydata())
        points = points[np.isfinite(points).all(1)]
        if ((points > -1e-6) & (points < 1 + 1e-6)).all():
            line.set_clip_on(False)


def shared_limits(axes: Sequence[mpl.Axes]) -> None:
    """Give all axes the same scales and limits, so that panels can be compared by eye."""
    if any(ax.get_yscale() == "log" for ax in axes):
        for ax in axes:
            logarithmic(ax)
    if not axes:
        return
    x, y = [ax.get_xlim() for ax in axes], [ax.get_ylim() for ax in axes]
    for ax in axes:
        ax.set_xlim(min(low for low, _ in x), max(high for _, high in x))
        ax.set_ylim(min(low for low, _ in y), max(high for _, high in y))
