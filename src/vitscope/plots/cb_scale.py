"""Figures of the CB_S scale exam."""

import numpy as np
from matplotlib.axes import Axes

from vitscope.exams.attention.cb_scale import QUANTITIES, CbScaleResult
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.heads import along_depth, nothing
from vitscope.drawing.style import MODELS

NOTHING = "no CB_S in this model"


@figure("cb_scale", "Mean absolute scale of each CB_S module.")
def plot_cb_scale(result: CbScaleResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Mean scale against depth."""
    return _plot(result, "mean", "Mean |λ|", ax, colour)


@figure("cb_scale", "How alike channels are: 10 % quantile of |λ| over its 90 % quantile.", "cb_scale_ratio")
def plot_cb_scale_ratio(result: CbScaleResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Ratio of the quantiles against depth."""
    return _plot(result, "ratio", "|λ| at 10 % / |λ| at 90 %", ax, colour)


def _plot(result: CbScaleResult, quantity: str, label: str, ax: Axes | None, colour: str) -> Axes:
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NOTHING)
    column = QUANTITIES.index(quantity)
    value, low, high = (a[:, column] for a in (result.value, result.low, result.high))
    depth = np.array([u.depth for u in result.units])
    ax.fill_between(depth, low, high, color=colour, alpha=0.25, linewidth=0)
    ax.plot(depth, value, "-o", color=colour, markersize=4.2, linewidth=1.6)
    along_depth(ax)
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel(label)
    return ax
