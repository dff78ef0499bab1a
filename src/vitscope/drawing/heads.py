"""A quantity of every layer and head against depth: a line for the layers, dots for their heads."""

import numpy as np
from matplotlib.axes import Axes

from vitscope.drawing.style import grid
from vitscope.results.head_rows import HeadRows


def plot_heads(
    ax: Axes, result: HeadRows, quantity: str, colour: str, label: str | None = None, dots: bool = True
) -> None:
    """Draw one quantity of a result with numbers per layer and head.

    Args:
        ax: Where to draw.
        result: What to draw; see `nothing` for one without rows.
        quantity: One of its quantities.
        colour: Of line and dots.
        label: Of the line.
        dots: Whether to draw the heads.
    """
    depth = np.array([result.units[i].depth for i in result.row_unit])
    value, low, high = result.of(quantity)
    layer = result.layers
    if dots:
        ax.plot(depth[~layer], value[~layer], "o", color=colour, markersize=3.4, alpha=0.5, markeredgewidth=0)
    ax.fill_between(depth[layer], low[layer], high[layer], color=colour, alpha=0.25, linewidth=0)
    ax.plot(depth[layer], value[layer], "-o", color=colour, markersize=4.2, linewidth=1.6, label=label)
    along_depth(ax)


def along_depth(ax: Axes) -> None:
    """The axes of all such figures."""
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel("Normalised depth")
    grid(ax)


def nothing(ax: Axes, why: str) -> Axes:
    """Say in one line why there is nothing to draw."""
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center")
    ax.set_axis_off()
    return ax
