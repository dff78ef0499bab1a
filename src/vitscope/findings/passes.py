"""What `passes` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_bars, legend_above, nothing
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import MODELS, grid
from vitscope.results import About, Result, column, tidy
from vitscope.results.condition_rows import QUANTITIES as SCORES
from vitscope.results.numbers import reads
from vitscope.results.numbers import with_interval as number
from vitscope.results.table import Estimated

ENTROPIES = ("entropy", "aleatoric", "epistemic")


QUANTITIES = (*SCORES, *ENTROPIES, "throughput")


CHANGES = ("accuracy", "nll", "brier", "ece")  # compared with the first condition, image by image


@dataclass(frozen=True, eq=False, kw_only=True)
class PassesResult(Estimated, Result, exam="passes", after="shape_bias", version=3):
    """Quality, uncertainty and speed by number of passes, (conditions, QUANTITIES)."""

    about = About(
        title="Averages over passes",
        shows="What averaging the predictions of several random passes, or of the members of an ensemble, does to "
        "accuracy, NLL and calibration, by how much the passes contradict each other, and what it costs.",
        papers="In the papers more passes lower NLL and calibration error, the first few most, at a throughput of one "
        "over their number. Smoothing the features gives a part of it with one pass.",
        misleads="Dropout that the model was not trained with is a disturbance: one pass of it is worse than the "
        "model, and the average has to make up for that first. Members of an ensemble are taken in the order given.",
    )
    measures = (*QUANTITIES, *(f"{name} change" for name in CHANGES))

    source: str  # what makes passes differ; "": nothing does
    inserted: bool  # dropout was put into a copy of the model for this
    p: float  # of that dropout; NaN: none was put in
    clock: str  # what throughput was measured by
    batches: int  # that it was measured on
    passes: np.ndarray  # (conditions,): how many; 0: the deterministic model
    smoothed: np.ndarray  # (conditions,): with spatial smoothing
    change: Estimate[
        np.ndarray
    ]  # (conditions, CHANGES): difference to the first condition on the same images
    drawn: np.ndarray  # (CHANGES, 1 + replicates): of the most passes without smoothing

    def replicates(self) -> dict[str, np.ndarray]:
        """`CHANGES` after the most passes, by "quantity, condition", to be compared with those of another model."""
        most = int(self.passes.max())
        condition = self._condition(most, smoothed=False)
        return {f"{quantity}, {condition}": self.drawn[i] for i, quantity in enumerate(CHANGES) if most}

    def of(self, quantity: str, smoothed: bool = False) -> pd.DataFrame:
        """Columns passes, value, low and high of one quantity."""
        chosen = self.smoothed == smoothed
        numbers = column(self, QUANTITIES, quantity, chosen)
        return pd.DataFrame({"passes": self.passes[chosen], **numbers._asdict()})

    def table(self) -> pd.DataFrame:
        """Every quantity by `passes` and `smoothed`; `... change` is the difference to the first condition.

        `n` counts images, for `throughput` batches.
        """
        rows = []
        for quantity in QUANTITIES:
            n = self.batches if quantity == "throughput" else self.n
            rows.append(self._rows(quantity, column(self, QUANTITIES, quantity), n))
        for i, quantity in enumerate(CHANGES):
            numbers = self.change.at((slice(None), i))
            rows.append(self._rows(f"{quantity} change", numbers, self.n).iloc[1:])
        return pd.concat(rows, ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """The deterministic model and the most passes, by `condition`: accuracy, NLL, ECE, and what passes add."""
        table = self.table()
        most = table["passes"].max()
        shown = table["quantity"].isin(["accuracy", "nll", "ece"]) & table["passes"].isin([0, most])
        shown |= table["quantity"].isin(["epistemic", "throughput"]) & (table["passes"] == most)
        rows = table[shown].reset_index(drop=True)
        rows["condition"] = [
            self._condition(passes, smoothed)
            for passes, smoothed in zip(rows["passes"], rows["smoothed"], strict=True)
        ]
        return rows.drop(columns=["passes", "smoothed"])

    def _condition(self, passes: int, smoothed: bool) -> str:
        counted = "members" if (self.passes > 0).all() else "passes"
        return (f"{passes} {counted}" if passes else "deterministic") + (" + spatial" if smoothed else "")

    def _rows(self, quantity: str, numbers: Estimate[np.ndarray], n: int) -> pd.DataFrame:
        return tidy(quantity, *numbers, n, passes=self.passes, smoothed=self.smoothed)


NOTHING = "no branch of the model can take dropout"


SMOOTHED = "--"


@figure(
    "passes", "NLL of the average over passes; shaded: 95 % interval over images; dotted: the model itself."
)
def plot_passes(result: PassesResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """NLL against the number of passes."""
    return _plot(result, "nll", "NLL (nats)", ax, colour)


@figure("passes", "Accuracy of the average over passes.", "passes_accuracy")
def plot_passes_accuracy(
    result: PassesResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Accuracy against the number of passes."""
    return _plot(result, "accuracy", "Accuracy", ax, colour, share=True)


@figure("passes", "Calibration error of the average over passes.", "passes_ece")
def plot_passes_ece(result: PassesResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Calibration error against the number of passes."""
    return _plot(result, "ece", "ECE", ax, colour, share=True)


@figure(
    "passes",
    "Entropy of single passes (data, aleatoric), and what contradiction between them adds (model, epistemic).",
    "passes_spread",
)
def plot_passes_spread(result: PassesResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Aleatoric and epistemic uncertainty against the number of passes."""
    ax = axes_or_new(ax)
    if not _drawn(result):
        return nothing(ax, NOTHING)
    for quantity, marker, label in (("aleatoric", "o", "data"), ("epistemic", "s", "model")):
        _lines(ax, result, quantity, colour, label, reference=False, marker=marker)
    _along_passes(ax, result, "Uncertainty (nats)")
    ax.set_ylim(bottom=0.0)
    legend_above(ax, 2, handlelength=None, columnspacing=None)
    return ax


@figure(
    "passes",
    "NLL against throughput relative to the model itself, whose NLL is dotted; the numbers are passes.",
    "passes_throughput",
)
def plot_passes_throughput(
    result: PassesResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """NLL against relative throughput, a point for each number of passes."""
    ax = axes_or_new(ax)
    if not _drawn(result):
        return nothing(ax, NOTHING)
    for smoothed in _groups(result):
        speed, nll = result.of("throughput", smoothed), result.of("nll", smoothed)
        shown = (speed["passes"] > 0).to_numpy()
        x = 100.0 * speed["value"].to_numpy()[shown]
        heights = Estimate(*nll[["value", "low", "high"]].to_numpy()[shown].T)
        line, face = (SMOOTHED, "white") if smoothed else ("-", colour)
        label = "with spatial smoothing" if smoothed else "as it is"
        style: dict[str, Any] = {"markersize": 4.5, "linewidth": 1.4, "elinewidth": 0.9, "capsize": 1.5}
        draw_bars(ax, x, heights, fmt=f"o{line}", color=colour, markerfacecolor=face, label=label, **style)
        for passes, at, height in zip(speed["passes"][shown], x, heights.value, strict=True):
            ax.annotate(str(passes), (at, height), (5, 5), textcoords="offset points", fontsize=9)
    single = result.of("nll")
    if single["passes"].iloc[0] == 0:
        ax.axhline(single["value"].iloc[0], color=colour, linewidth=1.2, linestyle=":")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(mpl.FixedLocator([1, 2, 5, 10, 20, 50, 100]))
    ax.xaxis.set_minor_locator(mpl.NullLocator())
    ax.xaxis.set_major_formatter(mpl.StrMethodFormatter("{x:g} %"))
    ax.invert_xaxis()
    ax.set_xlabel("Relative throughput")
    ax.set_ylabel("NLL (nats)")
    _legend(ax, result)
    grid(ax)
    return ax


def _plot(
    result: PassesResult, quantity: str, label: str, ax: mpl.Axes | None, colour: str, share: bool = False
) -> mpl.Axes:
    ax = axes_or_new(ax)
    if not _drawn(result):
        return nothing(ax, NOTHING)
    _lines(ax, result, quantity, colour, "as it is", reference=True)
    _along_passes(ax, result, label)
    if share:
        ax.yaxis.set_major_formatter(mpl.PercentFormatter(1.0))
    _legend(ax, result)
    return ax


def _lines(
    ax: mpl.Axes,
    result: PassesResult,
    quantity: str,
    colour: str,
    label: str,
    reference: bool,
    marker: str = "o",
) -> None:
    for smoothed in _groups(result):
        rows = result.of(quantity, smoothed)
        passes = rows[rows["passes"] > 0]
        ax.fill_between(
            passes["passes"],
            passes["low"],
            passes["high"],
            color=colour,
            alpha=0.12 if smoothed else 0.22,
            linewidth=0,
        )
        ax.plot(
            passes["passes"],
            passes["value"],
            marker + (SMOOTHED if smoothed else "-"),
            color=colour,
            markersize=4.5,
            linewidth=1.6,
            markerfacecolor="white" if smoothed else colour,
            label=f"{label}, smoothed" if smoothed else label,
        )
        single = rows[rows["passes"] == 0]
        if reference and len(single) and not smoothed:
            ax.axhline(single["value"].iloc[0], color=colour, linewidth=1.2, linestyle=":")


def _along_passes(ax: mpl.Axes, result: PassesResult, label: str) -> None:
    counts = sorted(set(result.passes[result.passes > 0].tolist()))
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(mpl.FixedLocator(counts))
    ax.xaxis.set_minor_locator(mpl.NullLocator())
    ax.xaxis.set_major_formatter(mpl.StrMethodFormatter("{x:.0f}"))
    ax.set_xlabel("Members" if (result.passes > 0).all() else "Passes")
    ax.set_ylabel(label)
    grid(ax)


def _legend(ax: mpl.Axes, result: PassesResult) -> None:
    if len(_groups(result)) > 1:
        legend_above(ax, 2, handlelength=None, columnspacing=None)


def _drawn(result: PassesResult) -> bool:
    return bool((result.passes > 0).any())


def _groups(result: PassesResult) -> list[bool]:
    """Without spatial smoothing, and with it if it was asked for."""
    return [False, True] if result.smoothed.any() else [False]


@reads("passes")
def _passes(result: Result) -> str:
    table = result.table()
    accuracy = table[table["quantity"] == "accuracy"]
    accuracy = accuracy[~accuracy["smoothed"].astype(bool)]
    if len(accuracy) < 2:
        return ""
    first, last = accuracy.iloc[0], accuracy.iloc[-1]
    nll = table[table["quantity"] == "nll"].set_index(["passes", "smoothed"])["value"]
    change = float(nll.loc[(last["passes"], False)]) - float(nll.loc[(first["passes"], False)])
    return (
        f"Averaging {last['passes']} passes takes accuracy from {number(first)} to {number(last)} and changes the NLL "
        f"by {change:+.3f}."
    )
