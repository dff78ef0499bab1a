"""Figures of the low-pass exam."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from vitscope.exams.attention.low_pass import APPLICATIONS, LowPassResult
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.heads import nothing, plot_heads
from vitscope.drawing.style import DEPTH, INK, MODELS, grid, logarithmic

NOTHING = "no attention in this model can be applied to its own output"


@figure("low_pass", "What is left of all frequencies but 0, one line per layer, coloured by depth.")
def plot_low_pass(result: LowPassResult, ax: Axes | None = None, colour: str | None = None) -> Axes:
    """Remaining amplitude against the number of applications."""
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NOTHING)
    left = np.array([result.of(f"remaining_{k}")[0][result.layers] for k in APPLICATIONS])  # (k, layers)
    for unit, line in zip(result.units, left.T, strict=True):
        ax.plot(
            (0, *APPLICATIONS), (1.0, *line), "-o", color=DEPTH(unit.depth), linewidth=1.3, markersize=3.2
        )
    logarithmic(ax)
    ax.set_xlim(0, APPLICATIONS[-1])
    ax.set_xticks((0, *APPLICATIONS))
    ax.set_xlabel("Applications of the attention")
    ax.set_ylabel("Amplitude left of frequencies > 0")
    grid(ax)
    drawing = ax.get_figure()
    if drawing is not None:
        bar = drawing.colorbar(ScalarMappable(Normalize(0, 1), DEPTH), ax=ax, pad=0.02, aspect=30)
        bar.set_label("Normalised depth")
        bar.outline.set_visible(False)
    return ax


@figure("low_pass", "Factor per application; below 1 everything but the mean dies out.", "low_pass_rate")
def plot_low_pass_rate(result: LowPassResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Rate of decay against depth."""
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NOTHING)
    plot_heads(ax, result, "rate", colour)
    ax.axhline(1.0, color=INK, linewidth=1.3, linestyle=":")
    ax.set_ylim(0.0, 1.05)
    ax.set_ylabel("Amplitude left per application")
    return ax
