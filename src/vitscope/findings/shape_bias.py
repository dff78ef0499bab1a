"""What `shape_bias` finds: result, reading and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments import NotEmpty, checked
from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_bars, draw_curve, frequency_axis, in_colours, legend_above, nothing
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, MSA_BAR, grid
from vitscope.results import About, Result, column, tidy_columns
from vitscope.results.condition_rows import Headline, headline_rows
from vitscope.results.numbers import by_name, reads
from vitscope.results.numbers import with_interval as number
from vitscope.results.table import Estimated

DECISIONS = ("low", "high", "neither")


QUANTITIES = (*DECISIONS, "shape_bias")


PHASE = "phase and amplitude swapped"


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapeBiasResult(Estimated, Result, exam="shape_bias", after="adversarial", version=2):
    """Decisions about mixed pictures; arrays are (ways of mixing, quantities), the swap of phase comes last."""

    about = About(
        title="Shape or texture",
        shows="Pictures with the low frequencies of one image and the high ones of another, of a different class: the "
        "share of decisions for either class against the cutoff between low and high. The further left the lines "
        "cross, the more the model goes by low frequencies: by shape.",
        papers="The papers infer from frequency noise that MSAs are shape-biased and convolutions texture-biased, "
        "since low frequencies are shape and high ones texture.",
        misleads="Only pairs of images that the model gets right count, so that two models are asked about different "
        "pairs. Where both classes lose, neither share is telling: look at the third line. Frequencies are per pixel: "
        "in a larger picture the same shape sits at lower ones.",
    )
    measures = (*QUANTITIES, "crossover")
    needs = (
        "rightly classified images of two classes in a batch (a trained model, larger batches, mixed classes)"
    )

    pairs: int
    cutoff: np.ndarray  # (ways - 1,), in units of pi
    headlines: tuple[Headline, ...]

    @property
    def conditions(self) -> list[str]:
        """The ways of mixing."""
        return [*(f"cut at {cutoff:g}π" for cutoff in self.cutoff), PHASE]

    def table(self) -> pd.DataFrame:
        """Low, high, neither and shape_bias by `condition` and `cutoff` (in units of π); `n` counts mixed pictures."""
        if not self.pairs:
            return headline_rows((), 0)
        columns = {"condition": self.conditions, "cutoff": [*self.cutoff, np.nan]}
        pieces = tidy_columns(self, QUANTITIES, 2 * self.pairs, **columns)
        crossover = [h for h in self.headlines if h.quantity == "crossover"]
        return pd.concat([pieces, headline_rows(crossover, 2 * self.pairs)], ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """Bias at 0.25π and of the swap of phase and amplitude, and where the lines cross."""
        return headline_rows(self.headlines, 2 * self.pairs)


def crossover(cutoff: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where low - high changes its sign for the first time, from (cutoffs, ...); at an end if it does not inside."""
    excess = (low - high).reshape(len(cutoff), -1)
    found = np.where(excess[0] >= 0, cutoff[0], cutoff[-1])
    open_ = excess[0] < 0
    for k in range(1, len(cutoff)):
        before, after = excess[k - 1], excess[k]
        here = open_ & (after >= 0)
        step = before[here] / (before[here] - after[here])
        found[here] = cutoff[k - 1] + step * (cutoff[k] - cutoff[k - 1])
        open_ = open_ & ~here
    return found.reshape(low.shape[1:])


NOTHING = "no two images of different classes in a batch are classified rightly"


_LINES = {"low": "-o", "high": "--s", "neither": ":"}


_NAMES = {"low": "low frequencies", "high": "high frequencies", "neither": "neither"}


@figure(
    "shape_bias",
    "Decisions about pictures mixed of two classes, by which image's class they name. Left of the crossing high "
    "frequencies decide, right of it low ones.",
)
def plot_shape_bias(result: ShapeBiasResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Shares of decisions against the cutoff between low and high frequencies."""
    ax = axes_or_new(ax)
    if not result.pairs:
        return nothing(ax, NOTHING)
    for decision in DECISIONS:
        shade = MSA_BAR if decision == "neither" else colour
        draw_curve(
            ax,
            result.cutoff,
            column(result, QUANTITIES, decision, slice(0, -1)),
            shade,
            _NAMES[decision],
            _LINES[decision],
        )
    _axes(ax, result.cutoff, "Decisions (%)")
    legend_above(ax)
    return ax


@figure(
    "shape_bias",
    "Decisions about pictures with the phase of one image and the amplitude of another.",
    "shape_bias_phase",
)
def plot_shape_bias_phase(
    result: ShapeBiasResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """A bar each for the phase's class, the amplitude's class and neither."""
    ax = axes_or_new(ax)
    if not result.pairs:
        return nothing(ax, NOTHING)
    share = result.estimate.at((-1, slice(len(DECISIONS)))).scaled(100)
    places = np.arange(len(DECISIONS))
    for place, shade, opacity in zip(places, (colour, colour, MSA_BAR), (1.0, 0.5, 1.0), strict=True):
        ax.bar(place, share.value[place], 0.6, color=shade, alpha=opacity, linewidth=0)
    draw_bars(ax, places, share, fmt="none", ecolor=INK, elinewidth=0.9, capsize=2.0)
    ax.set_xticks(places, ["the phase's class", "the amplitude's class", "neither"])
    ax.set_xlim(-0.6, len(DECISIONS) - 0.4)
    ax.set_ylim(0.0, 100.0)
    ax.set_ylabel("Decisions (%)")
    grid(ax)
    return ax


@checked
def plot_shape_biases(
    results: Annotated[Sequence[ShapeBiasResult], NotEmpty],
    ax: mpl.Axes | None = None,
    colours: Sequence[str] | None = None,
) -> mpl.Axes:
    """Shape bias of several models against the cutoff, on one axis.

    Args:
        results: One per model; those without pairs are left out.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    models = in_colours(results, colours, lambda result: result.pairs)
    if not models:
        return nothing(ax, NOTHING)
    for result, colour in models:
        bias = column(result, QUANTITIES, "shape_bias", slice(0, -1))
        draw_curve(ax, result.cutoff, bias, colour, result.model)
    ax.axhline(50.0, color=INK, linestyle="--", linewidth=1.0, alpha=0.7)
    _axes(ax, models[0][0].cutoff, "Shape bias (%)")
    legend_above(ax)
    return ax


def _axes(ax: mpl.Axes, cutoff: np.ndarray, quantity: str) -> None:
    frequency_axis(ax, max(0.1, float(cutoff[-1])))
    ax.set_xlim(right=max(0.1, float(cutoff[-1])) + 0.015)  # room for the last marker
    ax.set_ylim(0.0, 100.0)
    ax.set_xlabel("Cutoff between low and high frequencies")
    ax.set_ylabel(quantity)
    grid(ax)


@reads("shape_bias")
def _shape(result: Result) -> str:
    rows = by_name(result.summary())
    bias = next((row for name, row in rows.items() if name.startswith("shape_bias, cut")), None)
    crossover = next((row for row in rows.values() if row.quantity == "crossover"), None)
    if bias is None or bias.value != bias.value:
        return ""
    side = "the shape" if bias.low > 0.5 else "the texture" if bias.high < 0.5 else "neither side"
    text = f"Where low and high frequencies of two images are mixed, {side} clearly decides: bias {number(bias)}."
    if crossover is None or crossover.value != crossover.value:
        return text
    return f"{text} Both weigh the same when cut at {number(crossover)} π."
