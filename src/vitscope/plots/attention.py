"""Figures of the attention exam."""

import numpy as np
from matplotlib.axes import Axes

from vitscope.exams.attention.attention import AttentionResult
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.heads import nothing, plot_heads
from vitscope.drawing.style import INK, MODELS

NO_ATTENTION = "no attention over the map in this model"


@figure("attention", "Entropy of the attention of each layer and head, and what it can be at most.")
def plot_attention(result: AttentionResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Entropy against depth: mean and 15th percentile per layer, heads as dots, and the bound."""
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NO_ATTENTION)
    depth = np.array([u.depth for u in result.units])
    layers = result.layers
    plot_heads(ax, result, "entropy", colour, "mean")
    ax.plot(depth, result.percentile[layers], "--", color=colour, linewidth=1.3, label="15th percentile")
    ax.plot(depth, result.bound, ":", color=INK, linewidth=1.3, label="uniform attention")
    ax.set_ylim(0.0, 1.05 * float(result.bound.max()))
    ax.set_ylabel("Entropy (nats)")
    _legend(ax)
    return ax


@figure("attention", "How far the attention of each layer and head reaches.", "attention_distance")
def plot_attention_distance(result: AttentionResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Relative distance against depth."""
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NO_ATTENTION)
    plot_heads(ax, result, "distance", colour)
    top = float(np.nanmax(result.of("distance")[0], initial=0.0))
    ax.set_ylim(0.0, 1.08 * top or 1.0)
    ax.set_ylabel("Relative distance")
    return ax


@figure(
    "attention",
    "Share of the attention on a point itself and on prefix tokens, and how alike heads are.",
    "attention_heads",
)
def plot_attention_heads(result: AttentionResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Diagonal mass, prefix mass and head similarity of the layers against depth."""
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NO_ATTENTION)
    labels = {"similarity": "head similarity", "diagonal": "on itself", "prefix": "on prefix tokens"}
    for shade, (quantity, label) in zip((colour, INK, "#8b929b"), labels.items(), strict=True):
        plot_heads(ax, result, quantity, shade, label, dots=False)
    ax.set_ylim(0.0, 1.0)
    ax.set_ylabel("Share")
    _legend(ax)
    return ax


def _legend(ax: Axes) -> None:
    ax.legend(
        ncols=3,
        handlelength=1.6,
        columnspacing=1.2,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2,
    )
