"""What figures are made of: curves and bars with their intervals, and quantities against depth.

Against depth, in the papers' style: grey where an MSA works, blue where the map shrinks; of layers and heads a line for
the layers and dots for their heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from vitscope.core.errors import BadArgument
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.figures import NOTHING, axes_or_new
from vitscope.drawing.style import INK, MSA, MSA_BAR, SUBSAMPLE, depth_colours, grid, model_colour
from vitscope.results import UnitRow
from vitscope.results.table import HeadRows

R = TypeVar("R")


def draw_curve(
    ax: mpl.Axes,
    x: np.ndarray,
    shares: Estimate[np.ndarray],
    colour: str,
    label: str | None = None,
    line: str = "-o",
) -> None:
    """A line through shares, drawn in per cent, with a band for their 95 % interval; `line` as matplotlib takes it."""
    value, low, high = shares
    ax.fill_between(x, 100 * low, 100 * high, color=colour, alpha=0.18, linewidth=0)
    ax.plot(x, 100 * value, line, color=colour, label=label, markersize=3.8, linewidth=1.6)


def in_colours(
    results: Sequence[R], colours: Sequence[str] | None, shown: Callable[[R], Any] = lambda _: True
) -> list[tuple[R, str]]:
    """The models of a figure that have something to show, each in its colour, whatever the others have to show.

    Args:
        results: One per model.
        colours: One per model; None: the colours of a comparison.
        shown: Tells whether a result has something to show.
    """
    if colours and len(colours) < len(results):
        raise BadArgument(f"colours are {len(colours)} for {len(results)} models; expected one for each")
    given = colours or [model_colour(place) for place in range(len(results))]
    return [(result, colour) for result, colour in zip(results, given, strict=False) if shown(result)]


def draw_bars(ax: mpl.Axes, x: Any, numbers: Estimate[np.ndarray], **style: Any) -> mpl.ErrorbarContainer:
    """Numbers with a bar each for their 95 % interval; `style` is that of matplotlib's `errorbar`."""
    value, low, high = numbers
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
    """Draw one quantity of a result with numbers per layer and head; `dots` are the heads."""
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
    """Say in one line why there is nothing to draw; no file is made of it, and a page has the line alone."""
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", gid=NOTHING)
    ax.set_axis_off()
    return ax


def plot_depth(
    ax: mpl.Axes,
    units: Sequence[UnitRow],
    levels: Estimate[np.ndarray],
    colour: str,
    connected: np.ndarray | None = None,
) -> None:
    """Draw levels after each unit; the band of a unit spans the step that it makes. NaN is left out.

    `connected` says per unit whether its level can be compared with the one before; a dotted line where not.
    """
    depth, (value, low, high) = np.array([u.depth for u in units]), levels
    draw_bands(ax, units)
    for start, end in _runs(np.ones(len(units), bool) if connected is None else connected):
        piece = slice(start, end)
        ax.fill_between(depth[piece], low[piece], high[piece], color=colour, alpha=0.25, linewidth=0)
        ax.plot(depth[piece], value[piece], "-o", color=colour, markersize=3.6, linewidth=1.6)
        if start > 0:
            gap = slice(start - 1, start + 1)
            ax.plot(depth[gap], value[gap], ":", color=colour, linewidth=1.2)
    ax.set_xlim(min(0.0, float(depth.min())), max(1.0, float(depth.max())))
    ax.set_xlabel("Normalised depth")
    grid(ax)


def plot_change(ax: mpl.Axes, units: Sequence[UnitRow], change: Estimate[np.ndarray], colour: str) -> None:
    """Draw the change across each unit as a bar over its step, with its interval; MSAs in grey. NaN is left out."""
    depth = np.array([u.depth for u in units])
    step = np.diff(depth, prepend=depth[:1])
    middle = depth - step / 2
    msa = np.array([u.kind == "msa" for u in units])
    rest = " / ".join(dict.fromkeys(_label(u.kind) for u in units[1:] if u.kind != "msa"))
    for chosen, shade, label in ((msa, MSA_BAR, "MSA"), (~msa, colour, rest)):
        known = chosen & np.isfinite(change.value)
        if known.any():
            ax.bar(
                middle[known], change.value[known], 0.8 * step[known], color=shade, linewidth=0, label=label
            )
    known = np.isfinite(change.value) & np.isfinite(change.low)
    draw_bars(ax, middle[known], change.at(known), fmt="none", ecolor=INK, elinewidth=0.9, capsize=1.5)
    ax.axhline(0.0, color=INK, linewidth=0.8)
    ax.set_xlim(min(0.0, float(depth.min())), max(1.0, float(depth.max())))
    ax.set_xlabel("Normalised depth")
    _legend_above(ax, ax.get_legend_handles_labels()[0])
    grid(ax)


def draw_bands(ax: mpl.Axes, units: Sequence[UnitRow]) -> None:
    """Shade the step of every MSA grey and of every unit that makes the map smaller blue; say so above."""
    seen: dict[str, mpl.Patch] = {}
    for before, unit in pairwise(units):
        if unit.kind == "subsample" or unit.downsamples:
            label, (colour, opacity) = "subsampling", SUBSAMPLE
        elif unit.kind == "msa":
            label, (colour, opacity) = "MSA", MSA
        else:
            continue
        ax.axvspan(before.depth, unit.depth, color=colour, alpha=opacity, linewidth=0, zorder=0)
        seen[label] = mpl.Patch(color=colour, alpha=opacity, linewidth=0, label=label)
    kinds = dict.fromkeys(u.kind for u in units[1:] if u.kind != "subsample" and not u.downsamples)
    rest = [kind for kind in kinds if kind != "msa"]
    if rest:
        label = " / ".join(_label(kind) for kind in rest)
        seen[label] = mpl.Patch(facecolor="none", edgecolor="#808080", linewidth=0.6, label=label)
    _legend_above(ax, list(seen.values()))


def _legend_above(ax: mpl.Axes, handles: Sequence[mpl.Artist]) -> None:
    if handles:
        legend_above(ax, handles=handles, handlelength=1.2)


def _label(kind: str) -> str:
    return kind.upper() if kind in ("msa", "mlp") else kind


def _runs(connected: np.ndarray) -> list[tuple[int, int]]:
    """Start and end of each stretch of units that are connected to the one before."""
    starts = [0, *[i for i in range(1, len(connected)) if not connected[i]]]
    return list(zip(starts, [*starts[1:], len(connected)], strict=True))
