"""A share in per cent along some axis, as a line with its interval.

A quantity of every layer and head against depth: a line for the layers, dots for their heads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitscope.drawing import mpl
from vitscope.drawing.figures import axes_or_new
from vitscope.drawing.style import INK, depth_colours, grid
from vitscope.results.head_rows import HeadRows


def draw_curve(
    ax: mpl.Axes,
    x: np.ndarray,
    value: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    colour: str,
    label: str | None = None,
    line: str = "-o",
) -> None:
    """A line through shares, drawn in per cent, with a band for their 95 % interval.

    Args:
        ax: Where to draw.
        x: Places.
        value: Shares.
        low: Lower end of their intervals.
        high: Upper end.
        colour: Of line and band.
        label: For the legend.
        line: Style and marker, as matplotlib's `plot` takes them.
    """
    ax.fill_between(x, 100 * low, 100 * high, color=colour, alpha=0.18, linewidth=0)
    ax.plot(x, 100 * value, line, color=colour, label=label, markersize=3.8, linewidth=1.6)


def draw_bars(
    ax: mpl.Axes, x: Any, value: np.ndarray, low: np.ndarray, high: np.ndarray, **style: Any
) -> mpl.ErrorbarContainer:
    """Numbers with a bar each for their 95 % interval; `style` is that of matplotlib's `errorbar`."""
    return ax.errorbar(x, value, np.abs(np.stack([value - low, high - value])), **style)


def legend_above(ax: mpl.Axes, columns: int = 3, **style: Any) -> None:
    """The legend over the axes, where no curve can be; `style` is that of matplotlib's `legend`."""
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
    ax.legend(ncols=columns, **{**place, "handlelength": 1.8, "columnspacing": 1.2, **style})


def colour_bar(
    ax: mpl.Axes, label: str = "Normalised depth", shown: mpl.ScalarMappable | None = None, **style: Any
) -> None:
    """What the colours beside `ax` stand for: those of `shown`, by default those of depth."""
    drawing = ax.get_figure()
    if drawing is not None:
        shown = shown or mpl.ScalarMappable(mpl.Normalize(0, 1), depth_colours())
        bar = drawing.colorbar(shown, ax=ax, aspect=30, **(style or {"pad": 0.02}))
        bar.set_label(label)
        bar.outline.set_visible(False)


def frequency_axis(ax: mpl.Axes, furthest: float) -> None:
    """Ticks in units of pi, from 0 on."""
    ticks = np.arange(0.0, furthest + 1e-9, 0.1 if furthest <= 0.6 else 0.2).tolist()
    ax.set_xticks(ticks, [_in_pi(tick) for tick in ticks])
    ax.set_xlim(0.0, furthest)


def _in_pi(tick: float) -> str:
    return "0" if tick == 0 else "π" if abs(tick - 1.0) < 1e-9 else f"{tick:.1f}π"


def plot_heads(
    ax: mpl.Axes, result: HeadRows, quantity: str, colour: str, label: str | None = None, dots: bool = True
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


def plot_head_shares(
    result: HeadRows, quantity: str, label: str, why: str, ax: mpl.Axes | None, colour: str
) -> mpl.Axes:
    """A quantity of layers and heads that is 1 at most, or `why` there is none."""
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, why)
    plot_heads(ax, result, quantity, colour)
    ax.axhline(1.0, color=INK, linewidth=1.3, linestyle=":")
    ax.set_ylim(0.0, 1.05)
    ax.set_ylabel(label)
    return ax


def along_depth(ax: mpl.Axes) -> None:
    """The axes of all such figures."""
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel("Normalised depth")
    grid(ax)


def nothing(ax: mpl.Axes, why: str) -> mpl.Axes:
    """Say in one line why there is nothing to draw."""
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center")
    ax.set_axis_off()
    return ax
