"""Figure of the prediction exam."""

import numpy as np
from matplotlib.axes import Axes

from vitscope.exams.prediction import BINS, QUANTITIES, PredictionResult
from vitscope.plots.figures import axes_or_new, figure
from vitscope.plots.style import INK, MODELS, grid

FEW = 10  # bins with fewer images are drawn faintly


@figure("prediction", "Reliability diagram. Faint bars: fewer than 10 images.")
def plot_prediction(result: PredictionResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Reliability diagram: accuracy of each confidence bin, against the diagonal of perfect calibration."""
    ax = axes_or_new(ax)
    centres = (np.arange(BINS) + 0.5) / BINS
    enough = result.bin_count >= FEW
    for chosen, opacity in ((enough, 0.75), (~enough & (result.bin_count > 0), 0.25)):
        if chosen.any():
            ax.bar(
                centres[chosen],
                result.bin_accuracy[chosen],
                0.9 / BINS,
                color=colour,
                alpha=opacity,
                linewidth=0,
            )
    ax.plot([0, 1], [0, 1], "--", color=INK, linewidth=1.0, alpha=0.7)
    ax.text(0.03, 0.97, _figures(result), transform=ax.transAxes, va="top", linespacing=1.5)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_xlabel("Confidence")
    ax.set_ylabel("Accuracy")
    grid(ax)
    return ax


def _figures(result: PredictionResult) -> str:
    lines = []
    for name, label in (("accuracy", "accuracy"), ("ece", "ECE")):
        i = QUANTITIES.index(name)
        value, low, high = (100 * float(a[i]) for a in (result.value, result.low, result.high))
        lines.append(f"{label} {value:.1f} % [{low:.1f}, {high:.1f}]")
    gap = float(result.value[QUANTITIES.index("confidence")]) - result.accuracy
    return "\n".join([*lines, f"confidence − accuracy {100 * gap:+.1f} %"])
