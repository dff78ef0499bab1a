"""Figure of the CKA exam."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from vitscope.exams.features.cka import CkaResult
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK
from vitscope.results import UnitRow

COLOURS = "magma"
_TICKS = [0.0, 0.25, 0.5, 0.75, 1.0]
# A dark line with a light rim is seen on bright and on dark cells.
_BORDER: tuple[dict[str, Any], ...] = ({"color": "white", "linewidth": 1.6}, {"color": INK, "linewidth": 0.6})


@figure("cka", "Similarity of every pair of units, from input to output; thin lines: borders of stages.")
def plot_cka(result: CkaResult, ax: Axes | None = None, colour: str | None = None) -> Axes:
    """Heat map of the similarity of all pairs of units, with depth on both axes."""
    ax = axes_or_new(ax)
    shown = ax.imshow(
        np.clip(result.value, 0.0, 1.0),  # below 0 is noise around 0
        cmap=COLOURS,
        vmin=0.0,
        vmax=1.0,
        origin="lower",
        extent=(0.0, 1.0, 0.0, 1.0),
        interpolation="nearest",
        aspect="equal",
    )
    for line in _BORDER:
        for border in _borders(result.other_units):
            ax.axvline(border, **line)
        for border in _borders(result.units):
            ax.axhline(border, **line)
    across, upwards = (f" of {name}" for name in (result.other, result.model)) if result.other else ("", "")
    ax.set_xlabel(f"Normalised depth{across}")
    ax.set_ylabel(f"Normalised depth{upwards}")
    ax.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    ax.set_yticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    if not result.batches:
        ax.text(0.5, 0.5, "no batch of 4 images or more", ha="center", va="center")
    drawing = ax.get_figure()
    if drawing is not None:
        bar = drawing.colorbar(shown, ax=ax, pad=0.02, aspect=30)
        bar.set_label("CKA")
        bar.outline.set_visible(False)
    return ax


def _borders(units: Sequence[UnitRow]) -> list[float]:
    """Where a stage ends, as a share of the units."""
    return [i / len(units) for i, (a, b) in enumerate(pairwise(units), 1) if a.stage != b.stage]
