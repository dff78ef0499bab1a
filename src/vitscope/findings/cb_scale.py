"""What `cb_scale` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitscope.core import pd
from vitscope.drawing import mpl
from vitscope.drawing.curves import along_depth, nothing
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import MODELS
from vitscope.results import About, Result, UnitRow, column, tidy_columns
from vitscope.results.numbers import extremes, reads, rows_of
from vitscope.results.table import Estimated

QUANTITIES = ("mean", "ratio")


@dataclass(frozen=True, eq=False, kw_only=True)
class CbScaleResult(Estimated, Result, exam="cb_scale", after="maps"):
    """Arrays are (places, quantities); `n` is 0, because no image is looked at."""

    about = About(
        title="Learned scale of Context Broadcasting",
        shows="Mean absolute scale of each CB_S module, and the ratio of the 10 % to the 90 % quantile over its "
        "channels. High means that the layer adds much uniform attention, and in all channels alike.",
        papers="In the paper, both rise with depth: upper layers prefer denser interactions.",
        misleads="The scale multiplies the mean token, whose size grows with depth too, and a normalisation layer "
        "after it takes common factors out: a small scale on large tokens may do more than a large one on small ones.",
    )
    measures = QUANTITIES
    needs = "a model with learned scales (vitscope operate MODEL --broadcast-context kind=cb_s)"

    units: tuple[UnitRow, ...]
    module: tuple[str, ...]  # path of each CB_S module
    channels: np.ndarray

    def table(self) -> pd.DataFrame:
        """Quantities `mean` and `ratio`; here `n` counts channels."""
        table = tidy_columns(self, QUANTITIES, 0, self.units, module=list(self.module))
        return table.assign(n=np.tile(self.channels, len(QUANTITIES)))


NOTHING = "no CB_S in this model"


@figure("cb_scale", "Mean absolute scale of each CB_S module.")
def plot_cb_scale(result: CbScaleResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Mean scale against depth."""
    return _plot(result, "mean", "Mean |λ|", ax, colour)


@figure("cb_scale", "How alike channels are: 10 % quantile of |λ| over its 90 % quantile.", "cb_scale_ratio")
def plot_cb_scale_ratio(
    result: CbScaleResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Ratio of the quantiles against depth."""
    return _plot(result, "ratio", "|λ| at 10 % / |λ| at 90 %", ax, colour)


def _plot(result: CbScaleResult, quantity: str, label: str, ax: mpl.Axes | None, colour: str) -> mpl.Axes:
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NOTHING)
    value, low, high = column(result, QUANTITIES, quantity)
    depth = np.array([u.depth for u in result.units])
    ax.fill_between(depth, low, high, color=colour, alpha=0.25, linewidth=0)
    ax.plot(depth, value, "-o", color=colour, markersize=4.2, linewidth=1.6)
    along_depth(ax)
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel(label)
    return ax


@reads("cb_scale")
def _scale(result: Result) -> str:
    ratio = rows_of(result.summary(), "ratio")
    if ratio.empty:
        return ""
    low, high = extremes(ratio)
    return (
        f"The ratio of small to large scales runs from {low.value:.3g} ({low.unit}) to {high.value:.3g} "
        f"({high.unit})."
    )
