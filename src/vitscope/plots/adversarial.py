"""Figures of the adversarial exam."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from matplotlib.axes import Axes

from vitscope.core.arguments import NotEmpty, checked
from vitscope.engine.robustness.conditions import QUANTITIES
from vitscope.exams.robustness.adversarial import FGSM, PGD, AdversarialResult
from vitscope.drawing.curves import draw_curve, legend_above
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.heads import nothing
from vitscope.drawing.style import MODELS, grid, model_colour

NOTHING = "the model's scores have no gradient with respect to the image"
_LINES = {FGSM: "-o", PGD: "--s"}


@figure("adversarial", "Accuracy under attacks that may move every pixel by up to eps; band: 95 % interval.")
def plot_adversarial(result: AdversarialResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Accuracy against the strength of each attack."""
    ax = axes_or_new(ax)
    if not result.attacked:
        return nothing(ax, NOTHING)
    for attack in _attacks(result):
        label = attack if attack == FGSM else f"{attack}, {result.steps} steps"
        draw_curve(ax, *_curve(result, attack), colour, label, _LINES[attack])
    _axes(ax)
    legend_above(ax)
    return ax


@checked
def plot_adversarials(
    results: Annotated[Sequence[AdversarialResult], NotEmpty],
    ax: Axes | None = None,
    colours: Sequence[str] | None = None,
) -> Axes:
    """Several models on one axis.

    Args:
        results: One per model; those without a gradient are left out.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    if not any(result.attacked for result in results):
        return nothing(ax, NOTHING)
    for i, result in enumerate(results):
        for attack in _attacks(result):
            colour = colours[i] if colours else model_colour(i)
            draw_curve(ax, *_curve(result, attack), colour, f"{result.model}, {attack}", _LINES[attack])
    _axes(ax)
    legend_above(ax, columns=2)
    return ax


def _attacks(result: AdversarialResult) -> list[str]:
    return list(dict.fromkeys(a.attack for a in result.attacked if a.attack))


def _curve(result: AdversarialResult, attack: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Strength, accuracy and its interval, from no attack on."""
    rows = [0, *(i for i, attacked in enumerate(result.attacked) if attacked.attack == attack)]
    eps = np.array([result.attacked[i].eps for i in rows])
    column, scores = QUANTITIES.index("accuracy"), result.scores
    return eps, scores.value[rows, column], scores.low[rows, column], scores.high[rows, column]


def _axes(ax: Axes) -> None:
    ax.set_xlim(left=-0.02 * ax.get_xlim()[1])  # room for the first marker
    ax.set_ylim(0.0, 100.0)
    ax.set_xlabel("Largest change of a pixel (1/255)")
    ax.set_ylabel("Accuracy (%)")
    grid(ax)
