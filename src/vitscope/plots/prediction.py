"""Figures of the prediction exam."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from vitscope.engine.prediction.prediction_result import (
    CLASS_QUANTITIES,
    QUANTITIES,
    SHADES,
    PredictionResult,
)
from vitscope.engine.prediction.prediction_scores import BINS
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, grid

FEW = 10  # bins with fewer images are drawn faintly
MANY = 25  # more classes than that are not named one by one
WRONG = "#8b929b"


@figure(
    "prediction",
    "Reliability diagram: accuracy by confidence with 95 % intervals, and the number of images in each bin. "
    "Faint bars: fewer than 10 images.",
)
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
    filled = result.bin_count > 0
    ends = np.stack([result.bin_accuracy - result.bin_low, result.bin_high - result.bin_accuracy])[:, filled]
    ax.errorbar(
        centres[filled],
        result.bin_accuracy[filled],
        ends,
        fmt="none",
        ecolor=INK,
        elinewidth=0.8,
        capsize=1.5,
    )
    ax.plot([0, 1], [0, 1], "--", color=INK, linewidth=1.0, alpha=0.7)
    ax.text(0.0, 1.03, _figures(result), transform=ax.transAxes, fontsize=9, linespacing=1.4)
    for centre, count in zip(centres[filled], result.bin_count[filled], strict=True):
        ax.text(centre, 0.012, f"{count:,}", rotation=90, ha="center", va="bottom", fontsize=7)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_xlabel("Confidence")
    ax.set_ylabel("Accuracy")
    grid(ax)
    return ax


@figure(
    "prediction",
    "How sure the model is, of predictions that are right and of those that are wrong (stacked). Lines: mean "
    "confidence (dashed) and accuracy (solid).",
    name="prediction_confidence",
)
def plot_prediction_confidence(
    result: PredictionResult, ax: Axes | None = None, colour: str = MODELS[0]
) -> Axes:
    """Histogram of confidences: share of images, right ones below wrong ones."""
    ax = axes_or_new(ax)
    centres = (np.arange(SHADES) + 0.5) / SHADES
    right, wrong = result.histogram.T / max(result.n, 1)
    ax.bar(centres, right, 1 / SHADES, color=colour, alpha=0.75, linewidth=0, label="right")
    ax.bar(centres, wrong, 1 / SHADES, bottom=right, color=WRONG, alpha=0.9, linewidth=0, label="wrong")
    ax.axvline(
        result.quantity("confidence"), color=INK, linestyle="--", linewidth=1.0, label="mean confidence"
    )
    ax.axvline(result.accuracy, color=INK, linewidth=1.0, label="accuracy")
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel("Confidence")
    ax.set_ylabel("Share of images")
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    ax.legend(loc="upper left")
    grid(ax)
    return ax


@figure(
    "prediction",
    "Accuracy of each class (share of its images that are recognised) and precision (share of the images taken "
    "for it that are), with 95 % intervals; classes from the least accurate to the most.",
    name="prediction_classes",
)
def plot_prediction_classes(
    result: PredictionResult, ax: Axes | None = None, colour: str = MODELS[0]
) -> Axes:
    """Accuracy and precision of each class, sorted by accuracy."""
    ax = axes_or_new(ax)
    present = np.flatnonzero(result.class_count)
    order = present[np.argsort(result.class_value[present, 0], kind="stable")]
    named = len(order) <= MANY
    places = np.arange(len(order))
    for shift, (name, shade, marker) in enumerate((("accuracy", colour, "o"), ("precision", WRONG, "D"))):
        column = CLASS_QUANTITIES.index(name)
        value, low, high = (
            a[order, column] for a in (result.class_value, result.class_low, result.class_high)
        )
        at = places + (0.24 * shift - 0.12 if named else 0.0)
        size = 4.5 if named else 1.5
        ax.errorbar(
            at,
            value,
            np.stack([value - low, high - value]),
            fmt=marker,
            color=shade,
            markersize=size,
            elinewidth=1.0 if named else 0.3,
            label=name,
        )
    if named:
        ax.set_xticks(places, [result.class_names[k] for k in order], rotation=45, ha="right")
    ax.set_xlabel("Class" if named else "Class, by accuracy")
    ax.set_ylabel("Accuracy, precision")
    ax.set_ylim(0.0, 1.02)
    ax.legend(loc="lower right")
    grid(ax)
    return ax


def _figures(result: PredictionResult) -> str:
    lines = []
    for name, label in (("accuracy", "accuracy"), ("ece", "ECE")):
        i = QUANTITIES.index(name)
        value, low, high = (100 * float(a[i]) for a in (result.value, result.low, result.high))
        lines.append(f"{label} {value:.1f} % [{low:.1f}, {high:.1f}]")
    gap = result.quantity("confidence") - result.accuracy
    return f"{',  '.join(lines)}\nconfidence − accuracy {100 * gap:+.1f} %"
