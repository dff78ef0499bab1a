"""Figures of the effective-rank exam."""

from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes

from vitscope.exams.features.effective_rank import QUANTITIES, EffectiveRankResult
from vitscope.drawing.depth import plot_change, plot_depth
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS


@figure(
    "effective_rank", "Effective rank of the map's points after each unit; dotted: what it can be at most."
)
def plot_effective_rank(result: EffectiveRankResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Effective rank against depth, with its bound."""
    ax = axes_or_new(ax)
    _draw(ax, result, "effective_rank", colour)
    depth = [unit.depth for unit in result.units]
    ax.plot(depth, result.bound, ":", color=INK, linewidth=1.3, drawstyle="steps-mid")
    ax.set_ylim(0.0, 1.05 * float(result.bound.max()))
    ax.set_ylabel("Effective rank")
    return ax


@figure("effective_rank", "Mean cosine between two points of the map; at 1 all are alike.", "token_cosine")
def plot_token_cosine(result: EffectiveRankResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Mean cosine of pairs of points against depth."""
    ax = axes_or_new(ax)
    _draw(ax, result, "cosine", colour)
    lowest = float(np.nanmin(result.low[:, 1], initial=0.0))
    ax.set_ylim(min(0.0, 1.05 * lowest), 1.0)
    ax.set_ylabel("Cosine of two points")
    return ax


@figure(
    "effective_rank",
    "Change of that cosine across each unit; above 0 it makes points alike.",
    "token_cosine_change",
)
def plot_token_cosine_change(
    result: EffectiveRankResult, ax: Axes | None = None, colour: str = MODELS[0]
) -> Axes:
    """Change of the mean cosine across each unit."""
    ax = axes_or_new(ax)
    column = QUANTITIES.index("cosine")
    ends = (result.change[:, column], result.change_low[:, column], result.change_high[:, column])
    plot_change(ax, result.units, *ends, colour)
    ax.set_ylabel("Change of the cosine")
    return ax


def _draw(ax: Axes, result: EffectiveRankResult, quantity: str, colour: str) -> None:
    column = QUANTITIES.index(quantity)
    ends = (result.value[:, column], result.low[:, column], result.high[:, column])
    shapes = [unit.map_shape for unit in result.units]
    same = np.array([True, *(a == b for a, b in pairwise(shapes))])
    plot_depth(ax, result.units, *ends, colour, same)
