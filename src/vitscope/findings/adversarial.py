"""What `adversarial` finds: result, reading and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments import NotEmpty, checked
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_curve, in_colours, legend_above, nothing
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import MODELS, grid
from vitscope.results import About, Result
from vitscope.results.condition_rows import (
    CONDITION_QUANTITIES,
    ConditionTable,
    Headlined,
    condition_rows,
    conditions_in_words,
    headline_rows,
)
from vitscope.results.numbers import reads

CLEAN = "clean"


FGSM, PGD = "FGSM", "PGD"


@dataclass(frozen=True)
class Attacked:
    """One condition: an attack at one strength."""

    attack: str  # "": none
    eps: float  # in 1/255

    @property
    def condition(self) -> str:
        """Its name."""
        return f"{self.attack} {self.eps:g}/255" if self.attack else CLEAN


@dataclass(frozen=True, eq=False, kw_only=True)
class AdversarialResult(Headlined, Result, exam="adversarial", after="occlusion", version=2):
    """Accuracy without an attack (first condition) and under each attack; nothing if the model has no gradient.

    Headlines: accuracy under each attack.
    """

    about = About(
        title="Adversarial attacks",
        shows="Accuracy when every pixel may be moved by up to eps in the direction that hurts most: in one step "
        "(FGSM) or in several (PGD).",
        papers="In the papers Context Broadcasting raises the accuracy of ViT-S under FGSM from 27.2 to 32.3 %.",
        misleads="An attack that fails proves nothing: a model whose gradient vanishes, because it is very confident "
        "or rounds inside, looks robust. Where PGD is not clearly below FGSM, take more steps. Pixels of small "
        "pictures carry more each, so one eps does not mean the same at 32 and at 224 pixels.",
    )
    measures = CONDITION_QUANTITIES
    needs = "a model whose scores have a gradient with respect to the image"

    steps: int  # of PGD
    attacked: tuple[Attacked, ...]
    scores: ConditionTable  # (conditions)

    def table(self) -> pd.DataFrame:
        """Accuracy and drop by `condition`, `attack` and `eps` (in 1/255)."""
        if not self.attacked:
            return headline_rows((), 0)
        return condition_rows(
            [a.condition for a in self.attacked],
            self.scores,
            ("accuracy",),
            attack=[a.attack or None for a in self.attacked],
            eps=[a.eps for a in self.attacked],
        )


NOTHING = "the model's scores have no gradient with respect to the image"


_LINES = {FGSM: "-o", PGD: "--s"}


@figure("adversarial", "Accuracy under attacks that may move every pixel by up to eps; band: 95 % interval.")
def plot_adversarial(
    result: AdversarialResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
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
    ax: mpl.Axes | None = None,
    colours: Sequence[str] | None = None,
) -> mpl.Axes:
    """Several models on one axis.

    Args:
        results: One per model; those without a gradient are left out.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    models = in_colours(results, colours, lambda result: result.attacked)
    if not models:
        return nothing(ax, NOTHING)
    for result, colour in models:
        for attack in _attacks(result):
            draw_curve(ax, *_curve(result, attack), colour, f"{result.model}, {attack}", _LINES[attack])
    _axes(ax)
    legend_above(ax, columns=2)
    return ax


def _attacks(result: AdversarialResult) -> list[str]:
    return list(dict.fromkeys(a.attack for a in result.attacked if a.attack))


def _curve(result: AdversarialResult, attack: str) -> tuple[np.ndarray, Estimate[np.ndarray]]:
    """Strength and accuracy, from no attack on."""
    rows = [0, *(i for i, attacked in enumerate(result.attacked) if attacked.attack == attack)]
    eps = np.array([result.attacked[i].eps for i in rows])
    return eps, result.scores.of("accuracy", rows)


def _axes(ax: mpl.Axes) -> None:
    ax.set_xlim(left=-0.02 * ax.get_xlim()[1])  # room for the first marker
    ax.set_ylim(0.0, 100.0)
    ax.set_xlabel("Largest change of a pixel (1/255)")
    ax.set_ylabel("Accuracy (%)")
    grid(ax)


reads("adversarial")(conditions_in_words)
