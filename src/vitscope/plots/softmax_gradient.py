"""Figure of the softmax gradient exam."""

from matplotlib.axes import Axes

from vitscope.exams.attention.softmax_gradient import SoftmaxGradientResult
from vitscope.plots.attention import NO_ATTENTION
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.heads import nothing, plot_heads
from vitscope.drawing.style import INK, MODELS


@figure("softmax_gradient", "Slope of the softmax; 1 is that of uniform attention, the steepest there is.")
def plot_softmax_gradient(
    result: SoftmaxGradientResult, ax: Axes | None = None, colour: str = MODELS[0]
) -> Axes:
    """Nuclear norm of the softmax Jacobian, as a share of the largest possible one, against depth."""
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NO_ATTENTION)
    plot_heads(ax, result, "share", colour)
    ax.axhline(1.0, color=INK, linewidth=1.3, linestyle=":")
    ax.set_ylim(0.0, 1.05)
    ax.set_ylabel("Nuclear norm / its maximum")
    return ax
