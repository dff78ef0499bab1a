"""What `softmax_gradient` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass

from vitscope.drawing import mpl
from vitscope.drawing.curves import plot_head_shares
from vitscope.drawing.figures import figure
from vitscope.drawing.style import MODELS
from vitscope.findings.attention import NO_ATTENTION
from vitscope.results import About, Result
from vitscope.results.numbers import extremes, reads, rows_of
from vitscope.results.table import HeadRows

QUANTITIES = ("gradient", "share")


@dataclass(frozen=True, eq=False, kw_only=True)
class SoftmaxGradientResult(HeadRows, Result, exam="softmax_gradient", after="attention"):
    """Quantities `gradient` and `share`, per layer and head."""

    about = About(
        title="Gradient of the softmax",
        shows="Nuclear norm of the Jacobian of each attention's softmax, as a share of the largest possible one, which "
        "uniform attention has; a line for the layers, dots for the heads.",
        papers="In the paper, the gradient is steepest around uniform attention, so dense attention is hard to learn: "
        "a step of gradient descent breaks it. That is why Context Broadcasting adds it by hand.",
        misleads="The share is near 1 for anything that is spread over a few dozen keys: 10 keys of equal weight "
        "reach 0.9 already. It tells sharp from soft attention, not soft from uniform.",
    )
    measures = QUANTITIES
    needs = "a model with attention"

    quantities = QUANTITIES


@figure("softmax_gradient", "Slope of the softmax; 1 is that of uniform attention, the steepest there is.")
def plot_softmax_gradient(
    result: SoftmaxGradientResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Nuclear norm of the softmax Jacobian, as a share of the largest possible one, against depth."""
    return plot_head_shares(result, "share", "Nuclear norm / its maximum", NO_ATTENTION, ax, colour)


@reads("softmax_gradient")
def _gradient(result: Result) -> str:
    share = rows_of(result.summary(), "share")
    if share.empty:
        return ""
    low, high = extremes(share)
    least, most = (f"{100 * end.value:.0f} %" for end in (low, high))
    passed = f"{most} in every layer" if least == most else f"{least} ({low.unit}) to {most} ({high.unit})"
    return f"Attention passes on {passed} of the largest gradient that it could."
