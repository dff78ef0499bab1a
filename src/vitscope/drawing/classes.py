"""Classes in figures: their colours, and pictures side by side with the legend of classes below, without axes."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable, Sequence
from typing import Any

from vitscope.drawing import mpl

MANY = 25  # more classes than that are not named one by one
_FIRST = ("#2f7dc8", "#e8b23a", "#1f9174", "#a75fb0", "#7fc4e8", "#7a4f2a", "#b7c94a", "#e68fac", "#20366b")


def class_colour(k: int) -> tuple[float, float, float]:
    """Of class `k`: chosen for the first ones, then turned by the golden angle, which repeats nothing for long."""
    if k < len(_FIRST):
        red, green, blue = mpl.to_rgb(_FIRST[k])
        return red, green, blue
    return colorsys.hsv_to_rgb(k * 0.6180339887 % 1.0, (0.75, 0.5)[k % 2], (0.85, 0.6, 0.95)[k % 3])


def class_patches(numbers: Iterable[int], names: Sequence[str]) -> list[Any]:
    """An entry of the legend for each of these classes."""
    return [mpl.Patch(facecolor=class_colour(k), edgecolor="none", label=names[k]) for k in numbers]


def framed(ax: mpl.Axes, columns: int, rows: int, entries: Sequence[Any]) -> mpl.Axes:
    """Panels of 1 x 1 in so many columns and rows, with these entries of a legend below."""
    if entries:
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0)}
        ax.legend(handles=[*entries], ncols=3, fontsize=8, handlelength=1.0, **place)
    ax.set_xlim(0, columns)
    ax.set_ylim(0, rows)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax
