"""Figures of the noise and blur exams."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from matplotlib.axes import Axes

from vitscope.core.arguments import NotEmpty, checked
from vitscope.engine.robustness.conditions import QUANTITIES
from vitscope.exams.robustness.perturbations import BlurResult, NoiseResult, PerturbedRows
from vitscope.drawing.curves import legend_above
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, grid, model_colour


@figure(
    "noise", "Accuracy under slight noise; bar: 95 % interval over images, dots: single draws of the noise."
)
def plot_noise(result: NoiseResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Accuracy without noise and under each noise."""
    return plot_perturbations([result], ax, [colour])


@figure("blur", "Accuracy on pictures blurred by a Gaussian, with its 95 % interval over images.")
def plot_blur(result: BlurResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Accuracy without blur and under each blur."""
    return plot_perturbations([result], ax, [colour])


@checked
def plot_perturbations(
    results: Annotated[Sequence[PerturbedRows], NotEmpty],
    ax: Axes | None = None,
    colours: Sequence[str] | None = None,
) -> Axes:
    """Several models on one axis.

    Args:
        results: One per model, of the same exam and strengths.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    column = QUANTITIES.index("accuracy")
    names = [p.condition for p in results[0].perturbations]
    apart = 0.5 / len(results)
    for i, result in enumerate(results):
        colour = colours[i] if colours else model_colour(i)
        scores = result.scores
        value, low, high = (100 * a[:, column] for a in (scores.value, scores.low, scores.high))
        x = np.arange(len(names)) + (i - (len(results) - 1) / 2) * apart
        reach = np.abs(np.stack([value - low, high - value]))
        label = getattr(result, "model", None) if len(results) > 1 else None
        ax.errorbar(
            x,
            value,
            reach,
            fmt="o",
            color=colour,
            ecolor=INK,
            elinewidth=1.0,
            capsize=3.0,
            markersize=6.0,
            label=label,
        )
        if result.draws > 1:
            places = np.repeat(x[1:] + 0.3 * apart, result.draws)
            ax.plot(
                places, 100 * result.draw_accuracy[1:].ravel(), ".", color=colour, markersize=4.0, alpha=0.6
            )
    ax.set_xticks(range(len(names)), [name.replace("Gaussian ", "Gaussian\n") for name in names])
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_ylabel("Accuracy (%)")
    if len(results) > 1:
        legend_above(ax)
    grid(ax)
    return ax
