"""What `effective_rank` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import without_interval
from vitscope.drawing import mpl
from vitscope.drawing.curves import plot_change, plot_depth
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS
from vitscope.results import About, Result, column, tidy
from vitscope.results.numbers import plural, reads, rows_of
from vitscope.results.numbers import with_interval as number
from vitscope.results.unit_changes import UnitChanges

QUANTITIES = ("effective_rank", "cosine")


@dataclass(frozen=True, eq=False, kw_only=True)
class EffectiveRankResult(UnitChanges, Result, exam="effective_rank", after="variance"):
    """Arrays are (units, 2) or (kinds, 2): effective rank and cosine."""

    about = About(
        title="Rank and likeness of tokens",
        shows="Effective rank of the points of the feature map after each unit (line) with its largest possible value "
        "(dotted), and below the mean cosine between two points. Rank that falls while the cosine rises to 1 is "
        "over-smoothing: all points come to say the same.",
        papers="Attention averages points: a stack of nothing else collapses to rank one; skip connections and MLPs "
        "work against it. The papers' attention lowers the variance over points in the same way.",
        misleads="One direction that all points share (a large mean) raises the cosine and lowers the rank without "
        "making points hard to tell apart. Maps of different size or width have different bounds: compare changes "
        "across a unit, or shares of the bound.",
    )
    measures = (*QUANTITIES, *(f"{name}_change" for name in QUANTITIES), "rank_bound")

    bound: np.ndarray  # (units,): the largest effective rank

    def table(self) -> pd.DataFrame:
        """`effective_rank`, `cosine` and their changes (`..._change`, paired by image); `rank_bound` of each unit."""
        n, parts = self.n, []
        for i, name in enumerate(QUANTITIES):
            parts += [
                tidy(name, *column(self, QUANTITIES, name), n, self.units),
                self.change_rows(f"{name}_change", i),
            ]
        parts.append(tidy("rank_bound", *without_interval(self.bound), n, self.units))
        return pd.concat(parts, ignore_index=True)


@figure(
    "effective_rank", "Effective rank of the map's points after each unit; dotted: what it can be at most."
)
def plot_effective_rank(
    result: EffectiveRankResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Effective rank against depth, with its bound."""
    ax = axes_or_new(ax)
    _draw(ax, result, "effective_rank", colour)
    depth = [unit.depth for unit in result.units]
    ax.plot(depth, result.bound, ":", color=INK, linewidth=1.3, drawstyle="steps-mid")
    ax.set_ylim(0.0, 1.05 * float(result.bound.max()))
    ax.set_ylabel("Effective rank")
    return ax


@figure("effective_rank", "Mean cosine between two points of the map; at 1 all are alike.", "token_cosine")
def plot_token_cosine(
    result: EffectiveRankResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Mean cosine of pairs of points against depth."""
    ax = axes_or_new(ax)
    _draw(ax, result, "cosine", colour)
    lowest = float(np.nanmin(result.low[:, 1], initial=0.0))
    ax.set_ylim(min(0.0, 1.05 * lowest), 1.0)
    ax.set_ylabel("Cosine of two points")
    return ax


@figure(
    "effective_rank",
    "Change of that cosine across each unit; above 0 it makes points alike.",
    "token_cosine_change",
)
def plot_token_cosine_change(
    result: EffectiveRankResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Change of the mean cosine across each unit."""
    ax = axes_or_new(ax)
    plot_change(ax, result.units, result.change.at((slice(None), QUANTITIES.index("cosine"))), colour)
    ax.set_ylabel("Change of the cosine")
    return ax


def _draw(ax: mpl.Axes, result: EffectiveRankResult, quantity: str, colour: str) -> None:
    shapes = [unit.map_shape for unit in result.units]
    same = np.array([True, *(a == b for a, b in pairwise(shapes))])
    plot_depth(ax, result.units, column(result, QUANTITIES, quantity), colour, same)


@reads("effective_rank")
def _alike(result: Result) -> str:
    table = result.table()
    cosine = rows_of(table, "cosine").dropna(subset="value")
    if cosine.empty:
        return ""
    first, last = cosine.iloc[0], cosine.iloc[-1]
    changes = rows_of(table, "cosine_change")
    said = [
        f"{number(row)} across {plural(str(row.kind))}"
        for row in changes[changes["unit"].isna()].itertuples()
    ]
    mean = f" On average it changes by {'; '.join(said)}." if said else ""
    rank, bound = (rows_of(table, name).iloc[-1] for name in ("effective_rank", "rank_bound"))
    return (
        f"The cosine of two points goes from {number(first)} ({first.unit}) to {number(last)} ({last.unit}).{mean} "
        f"At the end the effective rank is {number(rank)} of at most {bound.value:.0f}."
    )
