"""What `frequency_noise` finds: result, reading and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments import NotEmpty, checked
from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_curve, frequency_axis, in_colours, legend_above
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, grid
from vitscope.results import About, Result
from vitscope.results.condition_rows import (
    CONDITION_QUANTITIES,
    SCORES,
    ConditionTable,
    Headlined,
    condition_rows,
)
from vitscope.results.numbers import by_name, reads
from vitscope.results.numbers import with_interval as number

CLEAN = "clean"


LOW, HIGH, HIGH_MINUS_LOW = "noise below 0.5π", "noise above 0.5π", "noise above minus below 0.5π"


@dataclass(frozen=True, eq=False, kw_only=True)
class FrequencyNoiseResult(Headlined, Result, exam="frequency_noise", after="blur", version=2):
    """Scores without noise (first condition) and with noise of each band.

    Headlines: mean drop over the bands below and above 0.5π, and the difference.
    """

    about = About(
        title="Noise by frequency",
        shows="Accuracy lost to noise that lives in one narrow band of frequencies, against the band's centre. Every "
        "band has the same energy. A model falls where it looks.",
        papers="In the papers ResNets are vulnerable to high-frequency noise and robust against low frequencies; ViTs "
        "are the other way round, which suggests that they see shape rather than texture.",
        misleads="The curve depends on what the model was trained on: augmentation with noise, blur or random patches "
        "flattens it. Equal energy is not equal visibility: images have little power at high frequencies, so the same "
        "noise hides more of it. Frequencies are per pixel: a larger picture of the same object has lower ones.",
    )
    measures = CONDITION_QUANTITIES

    strength: float  # root mean square of the noise, in 1/255 of the pixel range
    kinds: tuple[str, ...]  # of units in the model; none if anatomy does not understand it
    frequency: np.ndarray  # (bands,): centre, in units of pi
    scores: ConditionTable  # (1 + bands)

    @property
    def conditions(self) -> list[str]:
        """Their names."""
        return [CLEAN, *(f"noise at {frequency:.2f}π" for frequency in self.frequency)]

    def table(self) -> pd.DataFrame:
        """Accuracy, nll and ece by `condition` and `frequency` (in units of π), their drops, and means over bands."""
        frequency = [np.nan, *self.frequency]
        own = condition_rows(self.conditions, self.scores, frequency=frequency)
        return pd.concat([own, self.summary()], ignore_index=True)


@figure(
    "frequency_noise",
    "Accuracy (of objects: AP of boxes) lost to noise of one band of frequencies; all bands have the same energy.",
)
def plot_frequency_noise(
    result: FrequencyNoiseResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Drop in accuracy against the centre frequency of the noise."""
    ax = axes_or_new(ax)
    _drop(ax, result, colour, None)
    return ax


@figure(
    "frequency_noise",
    "Accuracy (of pixels: mIoU, of objects: AP of boxes) under the same noise; dashed: without noise.",
    "frequency_noise_accuracy",
)
def plot_frequency_noise_accuracy(
    result: FrequencyNoiseResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Accuracy against the centre frequency of the noise."""
    ax = axes_or_new(ax)
    score = result.scores.of(result.scores.main)
    ax.axhline(100 * score.value[0], color=INK, linestyle="--", linewidth=1.0, alpha=0.7)
    draw_curve(ax, result.frequency, score.at(slice(1, None)), colour)
    _axes(ax, f"{SCORES[result.scores.main]} (%)")
    return ax


@checked
def plot_frequency_noises(
    results: Annotated[Sequence[FrequencyNoiseResult], NotEmpty],
    ax: mpl.Axes | None = None,
    colours: Sequence[str] | None = None,
) -> mpl.Axes:
    """The drops of several models on one axis, as the paper draws them.

    Args:
        results: One per model.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    for result, colour in in_colours(results, colours):
        _drop(ax, result, colour, result.model)
    legend_above(ax)
    return ax


def _drop(ax: mpl.Axes, result: FrequencyNoiseResult, colour: str, label: str | None) -> None:
    draw_curve(ax, result.frequency, result.scores.drop.at(slice(1, None)), colour, label)
    ax.axhline(0.0, color=INK, linewidth=0.8)
    _axes(ax, f"{SCORES[result.scores.dropping]} drop (points)")


def _axes(ax: mpl.Axes, quantity: str) -> None:
    frequency_axis(ax, 1.0)
    ax.set_xlabel("Centre frequency of the noise")
    ax.set_ylabel(quantity)
    grid(ax)


@reads("frequency_noise")
def _noise(result: FrequencyNoiseResult) -> str:
    rows = by_name(result.summary())
    low, high = rows.get("drop, noise below 0.5π"), rows.get("drop, noise above 0.5π")
    difference = rows.get("drop, noise above minus below 0.5π")
    if low is None or high is None or difference is None:
        return ""
    lost = "accuracy" if result.scores.ap is None else SCORES[result.scores.dropping]
    more = "high" if difference.low > 0 else "low" if difference.high < 0 else ""
    judged = f"{more} frequencies hurt more" if more else "neither side clearly hurts more"
    return (
        f"Noise of low frequencies costs {number(low)} of {lost}, of high frequencies {number(high)}; {judged} "
        f"(difference {number(difference)})."
    )
