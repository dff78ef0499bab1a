"""Figure of the variance exam."""

import numpy as np
from matplotlib.axes import Axes

from vitscope.exams.features.variance import VarianceResult
from vitscope.drawing.depth import plot_change, plot_depth
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import MODELS, logarithmic

WIDE = 20.0  # levels further apart than this factor are drawn on a logarithmic axis


@figure("variance", "Variance over the points of the map after each unit; shaded: 95 % interval over images.")
def plot_variance(result: VarianceResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Feature-map variance against depth, over bands for MSA and subsampling."""
    ax = axes_or_new(ax)
    plot_depth(ax, result.units, result.value, result.low, result.high, colour)
    positive = result.value[np.isfinite(result.value) & (result.value > 0)]
    if positive.size and positive.max() > WIDE * positive.min():
        logarithmic(ax)
    else:
        ax.set_ylim(bottom=0.0)
    ax.set_ylabel("Feature-map variance")
    return ax


@figure("variance", "Change across each unit; below 0 it averages points together.", "variance_change")
def plot_variance_change(result: VarianceResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Change of the variance across each unit."""
    ax = axes_or_new(ax)
    plot_change(ax, result.units, result.change, result.change_low, result.change_high, colour)
    ax.set_ylabel("Change of the variance")
    return ax
