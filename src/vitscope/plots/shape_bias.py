"""Figures of the shape bias exam."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from matplotlib.axes import Axes

from vitscope.core.arguments import NotEmpty, checked
from vitscope.exams.robustness.shape_bias import DECISIONS, QUANTITIES, ShapeBiasResult
from vitscope.drawing.curves import draw_curve, frequency_axis, legend_above
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.heads import nothing
from vitscope.drawing.style import INK, MODELS, MSA_BAR, grid, model_colour

NOTHING = "no two images of different classes in a batch are classified rightly"
_LINES = {"low": "-o", "high": "--s", "neither": ":"}
_NAMES = {"low": "low frequencies", "high": "high frequencies", "neither": "neither"}


@figure(
    "shape_bias",
    "Decisions about pictures mixed of two classes, by which image's class they name. Left of the crossing high "
    "frequencies decide, right of it low ones.",
)
def plot_shape_bias(result: ShapeBiasResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Shares of decisions against the cutoff between low and high frequencies."""
    ax = axes_or_new(ax)
    if not result.pairs:
        return nothing(ax, NOTHING)
    for decision in DECISIONS:
        shade = MSA_BAR if decision == "neither" else colour
        draw_curve(
            ax, result.cutoff, *_of(result, decision, slice(0, -1)), shade, _NAMES[decision], _LINES[decision]
        )
    _axes(ax, result.cutoff, "Decisions (%)")
    legend_above(ax)
    return ax


@figure(
    "shape_bias",
    "Decisions about pictures with the phase of one image and the amplitude of another.",
    "shape_bias_phase",
)
def plot_shape_bias_phase(result: ShapeBiasResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """A bar each for the phase's class, the amplitude's class and neither."""
    ax = axes_or_new(ax)
    if not result.pairs:
        return nothing(ax, NOTHING)
    value, low, high = (100 * a[-1, : len(DECISIONS)] for a in (result.value, result.low, result.high))
    places = np.arange(len(DECISIONS))
    for place, shade, opacity in zip(places, (colour, colour, MSA_BAR), (1.0, 0.5, 1.0), strict=True):
        ax.bar(place, value[place], 0.6, color=shade, alpha=opacity, linewidth=0)
    reach = np.abs(np.stack([value - low, high - value]))
    ax.errorbar(places, value, reach, fmt="none", ecolor=INK, elinewidth=0.9, capsize=2.0)
    ax.set_xticks(places, ["the phase's class", "the amplitude's class", "neither"])
    ax.set_xlim(-0.6, len(DECISIONS) - 0.4)
    ax.set_ylim(0.0, 100.0)
    ax.set_ylabel("Decisions (%)")
    grid(ax)
    return ax


@checked
def plot_shape_biases(
    results: Annotated[Sequence[ShapeBiasResult], NotEmpty],
    ax: Axes | None = None,
    colours: Sequence[str] | None = None,
) -> Axes:
    """Shape bias of several models against the cutoff, on one axis.

    Args:
        results: One per model; those without pairs are left out.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    having = [(i, result) for i, result in enumerate(results) if result.pairs]
    if not having:
        return nothing(ax, NOTHING)
    for i, result in having:
        colour = colours[i] if colours else model_colour(i)
        draw_curve(ax, result.cutoff, *_of(result, "shape_bias", slice(0, -1)), colour, result.model)
    ax.axhline(50.0, color=INK, linestyle="--", linewidth=1.0, alpha=0.7)
    _axes(ax, having[0][1].cutoff, "Shape bias (%)")
    legend_above(ax)
    return ax


def _of(result: ShapeBiasResult, quantity: str, ways: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    column = QUANTITIES.index(quantity)
    return result.value[ways, column], result.low[ways, column], result.high[ways, column]


def _axes(ax: Axes, cutoff: np.ndarray, quantity: str) -> None:
    frequency_axis(ax, max(0.1, float(cutoff[-1])))
    ax.set_xlim(right=max(0.1, float(cutoff[-1])) + 0.015)  # room for the last marker
    ax.set_ylim(0.0, 100.0)
    ax.set_xlabel("Cutoff between low and high frequencies")
    ax.set_ylabel(quantity)
    grid(ax)
