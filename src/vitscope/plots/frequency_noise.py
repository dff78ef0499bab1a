"""Figures of the frequency noise exam."""

from collections.abc import Sequence
from typing import Annotated

from matplotlib.axes import Axes

from vitscope.core.arguments import NotEmpty, checked
from vitscope.engine.robustness.conditions import QUANTITIES
from vitscope.exams.robustness.frequency_noise import FrequencyNoiseResult
from vitscope.drawing.curves import draw_curve, frequency_axis, legend_above
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, grid, model_colour


@figure(
    "frequency_noise", "Accuracy lost to noise of one band of frequencies; all bands have the same energy."
)
def plot_frequency_noise(
    result: FrequencyNoiseResult, ax: Axes | None = None, colour: str = MODELS[0]
) -> Axes:
    """Drop in accuracy against the centre frequency of the noise."""
    ax = axes_or_new(ax)
    _drop(ax, result, colour, None)
    return ax


@figure(
    "frequency_noise",
    "Accuracy under the same noise; dashed: without noise.",
    "frequency_noise_accuracy",
)
def plot_frequency_noise_accuracy(
    result: FrequencyNoiseResult, ax: Axes | None = None, colour: str = MODELS[0]
) -> Axes:
    """Accuracy against the centre frequency of the noise."""
    ax = axes_or_new(ax)
    i = QUANTITIES.index("accuracy")
    value, low, high = (a[:, i] for a in (result.scores.value, result.scores.low, result.scores.high))
    ax.axhline(100 * value[0], color=INK, linestyle="--", linewidth=1.0, alpha=0.7)
    draw_curve(ax, result.frequency, value[1:], low[1:], high[1:], colour)
    _axes(ax, "Accuracy (%)")
    return ax


@checked
def plot_frequency_noises(
    results: Annotated[Sequence[FrequencyNoiseResult], NotEmpty],
    ax: Axes | None = None,
    colours: Sequence[str] | None = None,
) -> Axes:
    """The drops of several models on one axis, as the paper draws them.

    Args:
        results: One per model.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    for i, result in enumerate(results):
        _drop(ax, result, colours[i] if colours else model_colour(i), result.model)
    legend_above(ax)
    return ax


def _drop(ax: Axes, result: FrequencyNoiseResult, colour: str, label: str | None) -> None:
    scores = result.scores
    draw_curve(
        ax, result.frequency, scores.drop[1:], scores.drop_low[1:], scores.drop_high[1:], colour, label
    )
    ax.axhline(0.0, color=INK, linewidth=0.8)
    _axes(ax, "Accuracy drop (points)")


def _axes(ax: Axes, quantity: str) -> None:
    frequency_axis(ax, 1.0)
    ax.set_xlabel("Centre frequency of the noise")
    ax.set_ylabel(quantity)
    grid(ax)
