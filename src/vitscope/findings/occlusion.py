"""What `occlusion` finds: result, reading and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments import NotEmpty, checked
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_bars, draw_curve, in_colours, legend_above
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import MODELS, grid
from vitscope.results import About, Result
from vitscope.results.condition_rows import (
    CONDITION_QUANTITIES,
    SCORES,
    ConditionTable,
    Headlined,
    condition_rows,
    headline_rows,
    main_quantity,
)
from vitscope.results.numbers import by_name, reads
from vitscope.results.numbers import with_interval as number

CLEAN, CENTRE = "clean", "centre masked"


RANDOM, SALIENT, NON_SALIENT = "random", "salient", "non-salient"


@dataclass(frozen=True)
class Occluded:
    """One condition: what is masked, and in which order."""

    condition: str
    order: str  # random, salient or non-salient; "": the centre, or nothing
    share: float  # of the picture that is masked


@dataclass(frozen=True, eq=False, kw_only=True)
class OcclusionResult(Headlined, Result, exam="occlusion", after="frequency_noise", version=2):
    """Scores on whole pictures (first condition) and with parts of them masked.

    Headlines: accuracy with the centre masked, and mean accuracy over the shares of each order.
    """

    about = About(
        title="Occlusion",
        shows="Accuracy against the share of the picture that is masked: patches at random, those first that the "
        "model's decision hangs on most, or least. The diamond has the middle of the picture masked.",
        papers="In the papers vision transformers hold out against dropped patches, and with Context Broadcasting "
        "lose less when the centre is masked: 73.0 to 74.0 % for ViT-S on ImageNet.",
        misleads="Masks have edges that no training image had, and a CNN sees these edges as well as the loss: "
        "scattered patches have more of them than one block. Salient is what this model's own gradient says, so that "
        "models are masked in different places. Where the background has the fill's colour, masking it does nothing.",
    )
    measures = CONDITION_QUANTITIES

    fill: str  # mean or black
    side: int  # patches along each side
    occluded: tuple[Occluded, ...]
    scores: ConditionTable  # (conditions)

    @property
    def orders(self) -> list[str]:
        """The orders in which patches were dropped."""
        return list(dict.fromkeys(o.order for o in self.occluded if o.order))

    def table(self) -> pd.DataFrame:
        """Accuracy, nll, ece and drop by `condition`, `order` and `share`, and means over shares."""
        rows = condition_rows(
            [o.condition for o in self.occluded],
            self.scores,
            order=[o.order or None for o in self.occluded],
            share=[o.share for o in self.occluded],
        )
        over_shares = [h for h in self.headlines if h.condition != CENTRE]
        return pd.concat([rows, headline_rows(over_shares, self.n)], ignore_index=True)


_LINES = {RANDOM: "-o", SALIENT: "--s", NON_SALIENT: ":^"}


@figure(
    "occlusion",
    "Accuracy (of pixels: mIoU, of objects: AP of boxes) when patches are masked, in three orders; diamond: the centre "
    "is masked.",
)
def plot_occlusion(result: OcclusionResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Accuracy against the share of the picture that is masked."""
    ax = axes_or_new(ax)
    for order in result.orders:
        draw_curve(ax, *_curve(result, order), colour, order, _LINES[order])
    _centre(ax, result, colour, "centre half")
    _axes(ax, result)
    legend_above(ax, columns=4)
    return ax


@checked
def plot_occlusions(
    results: Annotated[Sequence[OcclusionResult], NotEmpty],
    order: str = RANDOM,
    ax: mpl.Axes | None = None,
    colours: Sequence[str] | None = None,
) -> mpl.Axes:
    """Several models on one axis, patches masked in one order; diamonds: the centre is masked.

    Args:
        results: One per model.
        order: random, salient or non-salient.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    for i, (result, colour) in enumerate(in_colours(results, colours)):
        if order in result.orders:
            draw_curve(ax, *_curve(result, order), colour, result.model, _LINES[order])
        aside = 1.6 * (i - (len(results) - 1) / 2)  # so that diamonds do not cover each other
        _centre(ax, result, colour, None if order in result.orders else result.model, aside)
    _axes(ax, results[0])
    legend_above(ax)
    return ax


def _curve(result: OcclusionResult, order: str) -> tuple[np.ndarray, Estimate[np.ndarray]]:
    """Share in per cent and accuracy, from the whole picture on."""
    rows = [0, *(i for i, occluded in enumerate(result.occluded) if occluded.order == order)]
    share = np.array([100 * result.occluded[i].share for i in rows])
    return share, result.scores.of(result.scores.main, rows)


def _centre(
    ax: mpl.Axes, result: OcclusionResult, colour: str, label: str | None, aside: float = 0.0
) -> None:
    row = next(i for i, occluded in enumerate(result.occluded) if occluded.condition == CENTRE)
    score = result.scores.of(result.scores.main, [row]).scaled(100)
    share = 100 * result.occluded[row].share + aside
    marker: dict[str, Any] = {
        "fmt": "D",
        "markersize": 6.0,
        "markerfacecolor": "white",
        "markeredgewidth": 1.4,
    }
    bar: dict[str, Any] = {"elinewidth": 1.0, "capsize": 2.0, "zorder": 4}
    draw_bars(ax, [share], score, color=colour, label=label, **marker, **bar)


def _axes(ax: mpl.Axes, result: OcclusionResult) -> None:
    ax.set_xlim(-2.0, 100.0)
    ax.set_ylim(0.0, 100.0)
    ax.set_xlabel("Masked share of the picture (%)")
    ax.set_ylabel(f"{SCORES[result.scores.main]} (%)")
    grid(ax)


@reads("occlusion")
def _occlusion(result: Result) -> str:
    rows = by_name(result.summary())
    quantity = main_quantity(result.summary())
    clean, centre = by_name(result.table()).get(f"{quantity}, clean"), rows.get(f"{quantity}, {CENTRE}")
    if clean is None or centre is None:
        return ""
    said = "accuracy" if quantity == "accuracy" else SCORES[quantity]
    text = f"With the centre masked {said} falls from {number(clean)} to {number(centre)}."
    salient, other = (rows.get(f"{quantity}, {name} patches masked") for name in ("salient", "non-salient"))
    if salient is None or other is None:
        return text
    return f"{text} Without salient patches it is {number(salient)} on average, without the others {number(other)}."
