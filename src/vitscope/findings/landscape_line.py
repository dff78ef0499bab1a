"""What `landscape_line` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import MODELS, grid
from vitscope.findings.landscape import masked, note_missing
from vitscope.results import About, Result, tidy
from vitscope.results.loss_numbers import LossPoints
from vitscope.results.numbers import by_name, reads
from vitscope.results.numbers import with_interval as number

QUANTITIES = ("nll", "l2", "loss", "accuracy", "excess")


@dataclass(frozen=True, eq=False, kw_only=True)
class LandscapeLineResult(LossPoints, Result, exam="landscape_line", after="landscape"):
    """The loss at `t` from 0 (`model`) to 1 (`other`); arrays are (points,), n is the number of images."""

    about = About(
        title="Loss between two models",
        shows="The loss on the augmented training images along the straight line of weights from one model to another.",
        papers="Checkpoints of one training are usually joined by a line without a barrier, trainings from different "
        "starts are not.",
        misleads="A barrier on the straight line is no barrier on every path: models that differ by the order of their "
        "channels alone have one. Statistics of batch norms between two models fit neither; estimate them "
        "(batch_norm='estimated').",
    )

    other: str
    t: np.ndarray
    excess: Estimate[np.ndarray]  # of the NLL over the chord between the ends, image by image
    distance: float  # between the two models' parameters

    def table(self) -> pd.DataFrame:
        """`nll`, `l2`, `loss`, `accuracy` (if there is one) and `excess` by `t`, after what `summary` holds."""
        shown = [quantity for quantity in QUANTITIES if quantity != "accuracy" or self.has_accuracy]
        grids = [tidy(quantity, *self.of(quantity), self.n, t=self.t) for quantity in shown]
        return pd.concat([self.summary(), *grids], ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """The largest excess with its interval, the distance, and the points where the loss is not finite."""
        unknown = float("nan")
        top = int(np.argmax(self.excess.value))
        rows = [
            ("barrier", *self.excess.at(top), self.t[top]),
            ("distance", self.distance, unknown, unknown, unknown),
            ("points not finite", self.not_finite, unknown, unknown, unknown),
        ]
        names, value, low, high, t = zip(*rows, strict=True)
        return tidy(names, value, low, high, self.n, t=np.array(t, dtype=np.float64))


@reads("landscape_line")
def _line(result: Result) -> str:
    barrier = by_name(result.summary()).get("barrier")
    if barrier is None:
        return ""
    return f"On the straight line between the two models the loss rises by at most {number(barrier)} above its ends."


@figure(
    "landscape_line",
    "NLL, or the loss of another task (left axis), and accuracy if there is one (right axis) between two models; "
    "shaded: 95 % interval over images.",
)
def plot_landscape_line(
    result: LandscapeLineResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """NLL and accuracy along the line from one model to the other."""
    ax = axes_or_new(ax)
    panels, lines = [(ax, "nll", colour, "-")], []
    if result.has_accuracy:
        right = ax.twinx()
        right.spines["right"].set_visible(True)
        right.yaxis.set_major_formatter(mpl.PercentFormatter(1.0, decimals=0))
        panels.append((right, "accuracy", MODELS[1], "--"))
    for panel, quantity, shade, style in panels:
        value, low, high = (masked(part) for part in result.of(quantity))
        panel.fill_between(result.t, low, high, color=shade, alpha=0.2, linewidth=0)
        lines += panel.plot(
            result.t, value, style, color=shade, marker="o", markersize=3.0, label=result.label(quantity)
        )
        panel.set_ylabel(result.label(quantity))
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel(f"0: {result.model}      1: {result.other}")
    ax.legend(handles=lines, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    grid(ax)
    note_missing(ax, result.not_finite, len(result.t))
    return ax
