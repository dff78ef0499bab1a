"""What `uncertainty` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitscope.core import pd
from vitscope.drawing import mpl
from vitscope.drawing.curves import nothing, plot_depth
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import MODELS
from vitscope.results import About, Result, UnitRow, column, tidy_columns
from vitscope.results.numbers import extremes, reads, rows_of
from vitscope.results.numbers import with_interval as number
from vitscope.results.table import Estimated

QUANTITIES = ("data_std", "model_std", "model_share")


@dataclass(frozen=True, eq=False, kw_only=True)
class UncertaintyResult(Estimated, Result, exam="uncertainty", after="lesion", version=4):
    """Spread of the features after each unit; arrays are (units, 3), in the order of QUANTITIES."""

    about = About(
        title="Uncertainty of features",
        shows="How far the feature map after each unit spreads over its points in one pass (data), and over passes of "
        "the same model with dropout on (model). A unit across which a line falls averages it away.",
        papers="In the papers smoothing before every stage's end lowers the spread over points and the spread over "
        "passes: averaging points acts like averaging over an ensemble.",
        misleads="Both spreads have the scale of the features, which a normalisation can change without any effect: "
        "compare the share, or steps across a unit. Where the model has no dropout of its own, dropout that it was "
        "not trained with is put in.",
    )
    measures = QUANTITIES

    units: tuple[UnitRow, ...]
    passes: int
    source: str  # what makes passes differ; "": nothing, there is no spread over passes

    def table(self) -> pd.DataFrame:
        """Quantities `data_std`, `model_std` and `model_share` of every unit."""
        return tidy_columns(self, QUANTITIES, self.n, self.units)


@figure(
    "uncertainty", "Data: standard deviation over the points of one pass; shaded: 95 % interval over images."
)
def plot_uncertainty(
    result: UncertaintyResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Spread over the points of one pass, against depth."""
    return _plot(result, "data_std", "Std over points", ax, colour)


@figure("uncertainty", "Model: standard deviation over passes with dropout on.", "uncertainty_model")
def plot_uncertainty_model(
    result: UncertaintyResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Spread over random passes, against depth."""
    return _plot(result, "model_std", "Std over passes", ax, colour)


@figure("uncertainty", "Share of the model's spread in both, which has no scale.", "uncertainty_share")
def plot_uncertainty_share(
    result: UncertaintyResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Share of the variance over passes in the sum of both variances, against depth."""
    return _plot(result, "model_share", "Model share of the variance", ax, colour)


def _plot(result: UncertaintyResult, quantity: str, label: str, ax: mpl.Axes | None, colour: str) -> mpl.Axes:
    ax = axes_or_new(ax)
    level = column(result, QUANTITIES, quantity)
    if not np.isfinite(level.value).any():
        return nothing(ax, "no branch of the model can take dropout")
    plot_depth(ax, result.units, level, colour)
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel(label)
    return ax


@reads("uncertainty")
def _uncertainty(result: Result) -> str:
    table = result.summary()
    data, model = rows_of(table, "data_std"), rows_of(table, "model_std")
    if data.empty or model.empty:
        return ""
    low, high = extremes(data)
    _, loud = extremes(model)
    return (
        f"Features differ most over the points of an image after {high.unit} ({number(high)}) and least after "
        f"{low.unit} ({number(low)}). Over passes they differ most after {loud.unit} ({number(loud)})."
    )
