"""Figures of the occlusion exam."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from matplotlib.axes import Axes

from vitscope.core.arguments import NotEmpty, checked
from vitscope.engine.robustness.conditions import QUANTITIES
from vitscope.exams.robustness.occlusion import CENTRE, NON_SALIENT, RANDOM, SALIENT, OcclusionResult
from vitscope.drawing.curves import draw_curve, legend_above
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import MODELS, grid, model_colour

_LINES = {RANDOM: "-o", SALIENT: "--s", NON_SALIENT: ":^"}


@figure("occlusion", "Accuracy when patches are masked, in three orders; diamond: the centre is masked.")
def plot_occlusion(result: OcclusionResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Accuracy against the share of the picture that is masked."""
    ax = axes_or_new(ax)
    for order in result.orders:
        draw_curve(ax, *_curve(result, order), colour, order, _LINES[order])
    _centre(ax, result, colour, "centre half")
    _axes(ax)
    legend_above(ax, columns=4)
    return ax


@checked
def plot_occlusions(
    results: Annotated[Sequence[OcclusionResult], NotEmpty],
    order: str = RANDOM,
    ax: Axes | None = None,
    colours: Sequence[str] | None = None,
) -> Axes:
    """Several models on one axis, patches masked in one order; diamonds: the centre is masked.

    Args:
        results: One per model.
        order: random, salient or non-salient.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    for i, result in enumerate(results):
        colour = colours[i] if colours else model_colour(i)
        if order in result.orders:
            draw_curve(ax, *_curve(result, order), colour, result.model, _LINES[order])
        aside = 1.6 * (i - (len(results) - 1) / 2)  # so that diamonds do not cover each other
        _centre(ax, result, colour, None if order in result.orders else result.model, aside)
    _axes(ax)
    legend_above(ax)
    return ax


def _curve(result: OcclusionResult, order: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Share in per cent, accuracy and its interval, from the whole picture on."""
    rows = [0, *(i for i, occluded in enumerate(result.occluded) if occluded.order == order)]
    share = np.array([100 * result.occluded[i].share for i in rows])
    column, scores = QUANTITIES.index("accuracy"), result.scores
    return share, scores.value[rows, column], scores.low[rows, column], scores.high[rows, column]


def _centre(ax: Axes, result: OcclusionResult, colour: str, label: str | None, aside: float = 0.0) -> None:
    row = next(i for i, occluded in enumerate(result.occluded) if occluded.condition == CENTRE)
    column, scores = QUANTITIES.index("accuracy"), result.scores
    value, low, high = (100 * float(a[row, column]) for a in (scores.value, scores.low, scores.high))
    share = 100 * result.occluded[row].share + aside
    reach = np.abs([[value - low], [high - value]])
    ax.errorbar(
        [share],
        [value],
        reach,
        fmt="D",
        color=colour,
        markersize=6.0,
        markerfacecolor="white",
        markeredgewidth=1.4,
        elinewidth=1.0,
        capsize=2.0,
        label=label,
        zorder=4,
    )


def _axes(ax: Axes) -> None:
    ax.set_xlim(-2.0, 100.0)
    ax.set_ylim(0.0, 100.0)
    ax.set_xlabel("Masked share of the picture (%)")
    ax.set_ylabel("Accuracy (%)")
    grid(ax)
