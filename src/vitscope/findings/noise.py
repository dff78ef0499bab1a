"""What `noise` finds: result, reading and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments import NotEmpty, checked
from vitscope.core.statistics import Estimate, mean_interval
from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_bars, in_colours, legend_above
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, grid
from vitscope.results import About, Result, tidy
from vitscope.results.condition_rows import (
    CONDITION_QUANTITIES,
    SCORES,
    ConditionTable,
    Headlined,
    condition_rows,
    conditions_in_words,
)
from vitscope.results.numbers import reads

CLEAN, SHOT, GAUSSIAN, BLUR = "clean", "shot noise", "Gaussian noise", "Gaussian blur"
PERTURBED = (*CONDITION_QUANTITIES, "accuracy_over_draws", "miou_over_draws", "box_ap_over_draws")


@dataclass(frozen=True)
class Perturbation:
    """What is done to pictures, and how strongly (photons, 1/255, or pixels)."""

    kind: str
    strength: float

    @property
    def condition(self) -> str:
        """Its name."""
        return self.kind if self.kind in (CLEAN, SHOT) else f"{self.kind} {self.strength:g}"


@dataclass(frozen=True, eq=False, kw_only=True)
class PerturbedRows(Headlined):
    """What results of both exams hold; the first perturbation is none. Headlines: accuracy under each other."""

    perturbations: tuple[Perturbation, ...]
    draws: int  # of the noise of each image
    scores: ConditionTable  # (perturbations), means over draws
    draw_accuracy: np.ndarray  # (perturbations, draws)
    draw_low: np.ndarray  # (perturbations,): interval over draws
    draw_high: np.ndarray
    draw_miou: np.ndarray | None = None  # (perturbations, draws), of pixels
    draw_ap: np.ndarray | None = None  # (perturbations, draws): AP of boxes, of objects

    def table(self) -> pd.DataFrame:
        """Scores by `condition`, `perturbation` and `strength`; those `_over_draws` have interval and n over draws."""
        own: dict[str, Any] = {
            "perturbation": [p.kind for p in self.perturbations],
            "strength": [p.strength for p in self.perturbations],
        }
        names = [p.condition for p in self.perturbations]
        rows = condition_rows(names, self.scores, **own)
        if self.draws < 2:
            return rows
        found = {"accuracy_over_draws": (self.draw_accuracy.mean(1), self.draw_low, self.draw_high)}
        if self.draw_ap is not None:
            found = {"box_ap_over_draws": _over_draws(self.draw_ap)}
        if self.draw_miou is not None:
            found["miou_over_draws"] = _over_draws(self.draw_miou)
        tables = [
            tidy(quantity, *numbers, self.draws, condition=names, **own).iloc[1:]
            for quantity, numbers in found.items()
        ]
        return pd.concat([rows, *tables], ignore_index=True)

    @property
    def main_draws(self) -> np.ndarray:
        """(perturbations, draws): what `scores.main` is in each draw."""
        own = self.draw_miou if self.draw_ap is None else self.draw_ap
        return self.draw_accuracy if own is None else own


def _over_draws(scores: np.ndarray) -> Estimate[np.ndarray]:
    """Means of (perturbations, draws) with the ends of their intervals, which stay in their range."""
    return mean_interval(scores.sum(1), np.square(scores).sum(1), scores.shape[1]).bounded()


@dataclass(frozen=True, eq=False, kw_only=True)
class NoiseResult(PerturbedRows, Result, exam="noise", after="corruption", version=2):
    """Scores under slight noise."""

    about = About(
        title="Noise",
        shows="Accuracy under noise as slight as a camera's: photons that are counted, and Gaussian noise of 5 and 10 "
        "grey levels. Dots are single draws of the noise.",
        papers="In the paper (segmentation of ADE20K) Context Broadcasting is ahead by 0.9 points of mIoU under each "
        "of these, and by 0.6 without noise.",
        misleads="The interval over draws is not that over images: it is narrow even on few images. Ten grey levels "
        "hide more of a small picture than of a large one. The paper does not say how strong its shot noise is; this "
        "one is about as strong as Gaussian noise of 10, as the paper's scores suggest.",
    )
    measures = PERTURBED


@figure(
    "noise",
    "Accuracy (of pixels: mIoU, of objects: AP of boxes) under slight noise; bar: 95 % interval over images, dots: "
    "single draws of the noise.",
)
def plot_noise(result: NoiseResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Accuracy without noise and under each noise."""
    return plot_perturbations([result], ax, [colour])


@checked
def plot_perturbations(
    results: Annotated[Sequence[PerturbedRows], NotEmpty],
    ax: mpl.Axes | None = None,
    colours: Sequence[str] | None = None,
) -> mpl.Axes:
    """Several models on one axis.

    Args:
        results: One per model, of the same exam and strengths.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    names = [p.condition for p in results[0].perturbations]
    apart = 0.5 / len(results)
    for i, (result, colour) in enumerate(in_colours(results, colours)):
        score = result.scores.of(result.scores.main).scaled(100)
        x = np.arange(len(names)) + (i - (len(results) - 1) / 2) * apart
        label = getattr(result, "model", None) if len(results) > 1 else None
        style: dict[str, Any] = {
            "fmt": "o",
            "ecolor": INK,
            "elinewidth": 1.0,
            "capsize": 3.0,
            "markersize": 6.0,
        }
        draw_bars(ax, x, score, color=colour, label=label, **style)
        if result.draws > 1:
            places = np.repeat(x[1:] + 0.3 * apart, result.draws)
            drawn = 100 * result.main_draws[1:].ravel()
            ax.plot(places, drawn, ".", color=colour, markersize=4.0, alpha=0.6)
    ax.set_xticks(range(len(names)), [name.replace("Gaussian ", "Gaussian\n") for name in names])
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_ylabel(f"{SCORES[results[0].scores.main]} (%)")
    if len(results) > 1:
        legend_above(ax)
    grid(ax)
    return ax


reads("noise")(conditions_in_words)
