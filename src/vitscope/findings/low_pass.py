"""What `low_pass` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitscope.drawing import mpl
from vitscope.drawing.curves import colour_bar, nothing, plot_head_shares
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import MODELS, depth_colours, grid, logarithmic
from vitscope.results import About, Result
from vitscope.results.numbers import extremes, reads, rows_of
from vitscope.results.table import HeadRows

APPLICATIONS = (1, 2, 4, 8)


QUANTITIES = ("rate", *(f"remaining_{k}" for k in APPLICATIONS))


@dataclass(frozen=True, eq=False, kw_only=True)
class LowPassResult(HeadRows, Result, exam="low_pass", after="softmax_gradient"):
    """Quantities `rate` and `remaining_k` (after k applications), per layer and head."""

    about = About(
        title="Repeated attention",
        shows="What is left of the values' amplitude at all frequencies but 0 after applying a layer's attention "
        "to them 1, 2, 4 and 8 times. A line that falls to nothing is a low-pass filter.",
        papers="The paper proves that softmax attention, applied again and again, removes every frequency but 0 "
        "(Proposition B.1).",
        misleads="A trained model applies each attention once, adds the result to its stream and has other weights in "
        "the next layer. The rate is a property of the matrix, not of what the model does.",
    )
    measures = QUANTITIES
    needs = "a model with attention"

    quantities = QUANTITIES


NOTHING = "no attention in this model can be applied to its own output"


@figure("low_pass", "What is left of all frequencies but 0, one line per layer, coloured by depth.")
def plot_low_pass(result: LowPassResult, ax: mpl.Axes | None = None, colour: str | None = None) -> mpl.Axes:
    """Remaining amplitude against the number of applications."""
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NOTHING)
    left = np.array([result.of(f"remaining_{k}")[0][result.layers] for k in APPLICATIONS])  # (k, layers)
    for unit, line in zip(result.units, left.T, strict=True):
        ax.plot(
            (0, *APPLICATIONS),
            (1.0, *line),
            "-o",
            color=depth_colours()(unit.depth),
            linewidth=1.3,
            markersize=3.2,
        )
    logarithmic(ax)
    ax.set_xlim(0, APPLICATIONS[-1])
    ax.set_xticks((0, *APPLICATIONS))
    ax.set_xlabel("Applications of the attention")
    ax.set_ylabel("Amplitude left of frequencies > 0")
    grid(ax)
    colour_bar(ax)
    return ax


@figure("low_pass", "Factor per application; below 1 everything but the mean dies out.", "low_pass_rate")
def plot_low_pass_rate(
    result: LowPassResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Rate of decay against depth."""
    return plot_head_shares(result, "rate", "Amplitude left per application", NOTHING, ax, colour)


@reads("low_pass")
def _repeated(result: Result) -> str:
    rate = rows_of(result.summary(), "rate")
    if rate.empty:
        return ""
    fast, slow = extremes(rate)
    return (
        f"Applied again and again, attention leaves {fast.value:.2f} ({fast.unit}) to {slow.value:.2f} ({slow.unit}) "
        "of what is not constant over the map each time."
    )
