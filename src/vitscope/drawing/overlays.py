"""Pictures side by side with what is in them: the legend of classes below, no axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vitscope.drawing import mpl
from vitscope.drawing.reliability import class_colour


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
