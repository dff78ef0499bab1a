"""What `prediction` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_bars, legend_above
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.reliability import draw_bins
from vitscope.drawing.style import INK, MODELS, grid
from vitscope.results import About, Result, tidy
from vitscope.results.calibrated import Calibrated, calibration_in_words
from vitscope.results.codec import stored_as
from vitscope.results.condition_rows import MEANS
from vitscope.results.numbers import by_name, reads
from vitscope.results.numbers import with_interval as number
from vitscope.results.table import Estimated


def images_of(words: np.ndarray) -> np.ndarray:
    """The images whose bit is set, ascending."""
    bits = np.unpackbits(words.astype("<i8").view(np.uint8), bitorder="little")
    return np.flatnonzero(bits)


SCALED = ("scaled_nll", "scaled_brier", "scaled_confidence", "scaled_ece")
CHANGES = ("nll_change", "ece_change")  # scaled minus unscaled, on the same half
SCALED_QUANTITIES = ("temperature", *SCALED, *CHANGES)


@dataclass(frozen=True, eq=False, kw_only=True)
class Scaling(Estimated):
    """What temperature scaling does; arrays follow `SCALED_QUANTITIES`, `drawn` is (replicates, quantities)."""

    n_fitted: int
    n: int  # in the other half
    converged: bool  # the best temperature is not the first or the last that was tried
    drawn: np.ndarray

    @property
    def temperature(self) -> float:
        """The fitted one: above 1 if the model is over-confident."""
        return float(self.value[0])


SHADES = 60  # bars of the histogram of confidences: four in each bin


QUANTITIES = (*MEANS, "ece", "signed_ece", "adaptive_ece")


CLASS_QUANTITIES = ("accuracy", "precision", "confidence")


def outputs_and_classes(outputs: int, classes: int) -> str:
    """What to say where labels and outputs cannot stand for the same things."""
    return (
        f"the model has {outputs} outputs, the data {classes} classes: accuracy and calibration mean something only if "
        "label k is output k"
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictionResult(Calibrated, Result, exam="prediction", version=3):
    """Quality and calibration of predictions; `value`, `low`, `high` follow `QUANTITIES`, bins are (15,)."""

    about = About(
        title="Predictions",
        shows="Accuracy against confidence: on the diagonal the model is right as often as it says. Bars "
        "below it are over-confident, bars above it under-confident; the calibration error is the "
        "mean distance.",
        papers="In the paper, models trained without augmentation are over-confident, and strong "
        "augmentation makes both CNNs and vision transformers under-confident.",
        misleads="Noise can only raise the calibration error, so it is too high on few images; its "
        "interval reaches down accordingly. Bins with few images scatter widely.",
    )
    measures = (*QUANTITIES, *SCALED_QUANTITIES)
    quantities = QUANTITIES
    in_bins = "count"

    temperature: float  # that logits were divided by
    histogram: np.ndarray  # (60, 2) images by confidence: right, wrong
    class_names: tuple[str, ...]
    class_count: np.ndarray  # (classes,) images of the class
    class_predicted: np.ndarray  # (classes,) images taken for it
    # (classes, 3) in the order of CLASS_QUANTITIES; NaN where there is no image
    by_class: Estimate[np.ndarray] = field(metadata=stored_as("class_value", "class_low", "class_high"))
    seen: np.ndarray  # which images of the data, as bits (see image_bits)
    right: np.ndarray  # and which of them are right
    scaling: Scaling | None = None  # with temperature="fit"

    @property
    def accuracy(self) -> float:
        """Share of images whose prediction is right."""
        return self.quantity("accuracy")

    @property
    def nll(self) -> float:
        """Mean negative log-likelihood, in nats."""
        return self.quantity("nll")

    @property
    def mismatch(self) -> str:
        """A sentence where the model has more outputs than the data has classes; else empty."""
        own = [name for k, name in enumerate(self.class_names) if name != str(k)]
        beyond = [k for k, name in enumerate(self.class_names) if name == str(k) and not self.class_count[k]]
        if not own or not beyond:  # nobody has named the classes, or each output has one
            return ""
        return outputs_and_classes(len(self.class_names), len(self.class_names) - len(beyond))

    @property
    def _tells_top5(self) -> bool:
        """Of five classes or fewer, whatever the label, it is among five."""
        return len(self.class_names) > 5

    def outcomes(self) -> tuple[np.ndarray, np.ndarray]:
        """Places in the data of the images that were seen, ascending, and whether each is right."""
        seen = images_of(self.seen)
        return seen, np.isin(seen, images_of(self.right))

    def replicates(self) -> dict[str, np.ndarray]:
        """Those of every quantity in the table, with temperature="fit" also those of the scaled predictions."""
        found = super().replicates()
        if not self._tells_top5:
            del found["top5"]
        if self.scaling is not None:
            value, drawn = self.scaling.value, self.scaling.drawn
            found |= {q: np.append(value[i], drawn[:, i]) for i, q in enumerate(SCALED_QUANTITIES)}
        return found

    def table(self) -> pd.DataFrame:
        """One row per quantity; after temperature="fit" also those of the scaled predictions, on half of the images."""
        own = tidy(QUANTITIES, *self.estimate, self.n)
        if not self._tells_top5:
            own = own[own["quantity"] != "top5"].reset_index(drop=True)
        if self.scaling is None:
            return own
        scaled = tidy(SCALED_QUANTITIES, *self.scaling.estimate, self.scaling.n)
        scaled.loc[0, "n"] = self.scaling.n_fitted
        return pd.concat([own, scaled], ignore_index=True)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The quantities, the reliability diagram bin by bin, the histogram of confidences, and the classes."""
        edges = np.arange(SHADES + 1) / SHADES
        shades = {"low_edge": edges[:-1], "high_edge": edges[1:]}
        shades |= {"right": self.histogram[:, 0], "wrong": self.histogram[:, 1]}
        return {
            **super().tables(),
            "reliability": self.reliability_table(),
            "confidence": pd.DataFrame(shades),
            "classes": self.class_table(),
        }

    def class_table(self) -> pd.DataFrame:
        """Per class: accuracy and mean confidence over its images, precision over the images taken for it."""
        counts = np.stack([self.class_count, self.class_predicted, self.class_count], 1)
        rows, columns = np.nonzero(counts)
        return pd.DataFrame(
            {
                "class": rows,
                "name": [self.class_names[row] for row in rows],
                "quantity": [CLASS_QUANTITIES[column] for column in columns],
                **self.by_class.at((rows, columns))._asdict(),
                "n": counts[rows, columns],
            }
        )


FEW = 10  # bins with fewer images are drawn faintly


MANY = 25  # more classes than that are not named one by one


WRONG = "#8b929b"


@figure(
    "prediction",
    "Reliability diagram: accuracy by confidence with 95 % intervals, and the number of images in each bin. "
    "Faint bars: fewer than 10 images.",
)
def plot_prediction(
    result: PredictionResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Reliability diagram: accuracy of each confidence bin, against the diagonal of perfect calibration."""
    ax = axes_or_new(ax)
    ax.text(0.0, 1.03, _figures(result), transform=ax.transAxes, fontsize=9, linespacing=1.4)
    counts = [f"{count:,}" for count in result.bin_count]
    enough = result.bin_count >= FEW
    draw_bins(ax, result.bin_count, result.bin_accuracy, enough, counts, colour)
    ax.set_ylabel("Accuracy")
    return ax


@figure(
    "prediction",
    "How sure the model is, of predictions that are right and of those that are wrong (stacked). Lines: mean "
    "confidence (dashed) and accuracy (solid).",
    name="prediction_confidence",
)
def plot_prediction_confidence(
    result: PredictionResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
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
    ax.yaxis.set_major_formatter(mpl.PercentFormatter(1.0, symbol=" %"))
    legend_above(ax, columns=4)
    grid(ax)
    return ax


@figure(
    "prediction",
    "Accuracy of each class (share of its images that are recognised) and precision (share of the images taken "
    "for it that are), with 95 % intervals; classes from the least accurate to the most.",
    name="prediction_classes",
)
def plot_prediction_classes(
    result: PredictionResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Accuracy and precision of each class, sorted by accuracy."""
    ax = axes_or_new(ax)
    present = np.flatnonzero(result.class_count)
    order = present[np.argsort(result.by_class.value[present, 0], kind="stable")]
    named = len(order) <= MANY
    places = np.arange(len(order))
    for shift, (name, shade, marker) in enumerate((("accuracy", colour, "o"), ("precision", WRONG, "D"))):
        column = CLASS_QUANTITIES.index(name)
        at = places + (0.24 * shift - 0.12 if named else 0.0)
        size, line = (4.5, 1.0) if named else (1.5, 0.3)
        style: dict[str, Any] = {"fmt": marker, "color": shade, "markersize": size, "elinewidth": line}
        draw_bars(ax, at, result.by_class.at((order, column)), label=name, **style)
    if named:
        ax.set_xticks(places, [result.class_names[k] for k in order], rotation=45, ha="right")
    ax.set_xlabel("Class" if named else "Class, by accuracy")
    ax.set_ylabel("Accuracy, precision")
    ax.set_ylim(0.0, 1.02)
    legend_above(ax)
    grid(ax)
    return ax


def _figures(result: PredictionResult) -> str:
    gap = result.quantity("confidence") - result.accuracy
    scores = f"{result.told('accuracy', 'accuracy')},  {result.told('ece', 'ECE')}"
    return f"{scores}\nconfidence − accuracy {100 * gap:+.1f} points"


@reads("prediction")
def _prediction(result: PredictionResult) -> str:
    rows = by_name(result.table())
    accuracy, confidence, signed = rows["accuracy"], rows["confidence"], rows["signed_ece"]
    calibration = calibration_in_words(signed)
    return (
        f"It is right about {number(accuracy)} of {result.n} images and says so with a mean confidence of "
        f"{number(confidence)}: {calibration}. The calibration error is {number(rows['ece'])}, the NLL "
        f"{number(rows['nll'])}." + (f" But {result.mismatch}." if result.mismatch else "")
    )
