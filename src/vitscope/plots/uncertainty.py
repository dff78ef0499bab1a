"""Figures of the uncertainty exam."""

import numpy as np
from matplotlib.axes import Axes

from vitscope.exams.features.uncertainty import QUANTITIES, UncertaintyResult
from vitscope.drawing.depth import plot_depth
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.heads import nothing
from vitscope.drawing.style import MODELS


@figure(
    "uncertainty", "Data: standard deviation over the points of one pass; shaded: 95 % interval over images."
)
def plot_uncertainty(result: UncertaintyResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Spread over the points of one pass, against depth."""
    return _plot(result, "data_std", "Std over points", ax, colour)


@figure("uncertainty", "Model: standard deviation over passes with dropout on.", "uncertainty_model")
def plot_uncertainty_model(
    result: UncertaintyResult, ax: Axes | None = None, colour: str = MODELS[0]
) -> Axes:
    """Spread over random passes, against depth."""
    return _plot(result, "model_std", "Std over passes", ax, colour)


@figure("uncertainty", "Share of the model's spread in both, which has no scale.", "uncertainty_share")
def plot_uncertainty_share(
    result: UncertaintyResult, ax: Axes | None = None, colour: str = MODELS[0]
) -> Axes:
    """Share of the variance over passes in the sum of both variances, against depth."""
    return _plot(result, "model_share", "Model share of the variance", ax, colour)


def _plot(result: UncertaintyResult, quantity: str, label: str, ax: Axes | None, colour: str) -> Axes:
    ax = axes_or_new(ax)
    column = QUANTITIES.index(quantity)
    value, low, high = (numbers[:, column] for numbers in (result.value, result.low, result.high))
    if not np.isfinite(value).any():
        return nothing(ax, "no branch of the model can take dropout")
    plot_depth(ax, result.units, value, low, high, colour)
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel(label)
    return ax
