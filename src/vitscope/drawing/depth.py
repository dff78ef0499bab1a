"""A quantity against depth, in the papers' style: grey where an MSA works, blue where the map shrinks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_bars, legend_above
from vitscope.drawing.style import INK, MSA, MSA_BAR, SUBSAMPLE, grid
from vitscope.results import UnitRow


def plot_depth(
    ax: mpl.Axes,
    units: Sequence[UnitRow],
    value: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    colour: str,
    connected: np.ndarray | None = None,
) -> None:
    """Draw value and interval after each unit; the band of a unit spans the step that it makes.

    Args:
        ax: Where to draw.
        units: The units, in order.
        value: A number per unit; NaN is left out.
        low: Lower end of its interval.
        high: Upper end.
        colour: Of the line.
        connected: Per unit, whether its level can be compared with the one before; a dotted line where not.
    """
    depth = np.array([u.depth for u in units])
    draw_bands(ax, units)
    joined = np.ones(len(units), bool) if connected is None else connected.copy()
    for start, end in _runs(joined):
        piece = slice(start, end)
        ax.fill_between(depth[piece], low[piece], high[piece], color=colour, alpha=0.25, linewidth=0)
        ax.plot(depth[piece], value[piece], "-o", color=colour, markersize=3.6, linewidth=1.6)
        if start > 0:
            gap = slice(start - 1, start + 1)
            ax.plot(depth[gap], value[gap], ":", color=colour, linewidth=1.2)
    ax.set_xlim(min(0.0, float(depth.min())), max(1.0, float(depth.max())))
    ax.set_xlabel("Normalised depth")
    grid(ax)


def plot_change(
    ax: mpl.Axes,
    units: Sequence[UnitRow],
    change: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    colour: str,
) -> None:
    """Draw the change across each unit as a bar over its step, with its interval; MSAs in grey.

    Args:
        ax: Where to draw.
        units: The units, in order.
        change: A number per unit; NaN is left out.
        low: Lower end of its interval.
        high: Upper end.
        colour: Of the units that are no MSA.
    """
    depth = np.array([u.depth for u in units])
    step = np.diff(depth, prepend=depth[:1])
    middle = depth - step / 2
    msa = np.array([u.kind == "msa" for u in units])
    rest = " / ".join(dict.fromkeys(_label(u.kind) for u in units[1:] if u.kind != "msa"))
    for chosen, shade, label in ((msa, MSA_BAR, "MSA"), (~msa, colour, rest)):
        known = chosen & np.isfinite(change)
        if known.any():
            ax.bar(middle[known], change[known], 0.8 * step[known], color=shade, linewidth=0, label=label)
    known = np.isfinite(change) & np.isfinite(low)
    ends = (change[known], low[known], high[known])
    draw_bars(ax, middle[known], *ends, fmt="none", ecolor=INK, elinewidth=0.9, capsize=1.5)
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
