"""What the prediction exam finds."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from vitscope.engine.image_bits import images_of
from vitscope.engine.prediction.prediction_scores import BINS, MEANS
from vitscope.engine.prediction.prediction_temperature import SCALED_QUANTITIES
from vitscope.engine.prediction.prediction_temperature import Scaling
from vitscope.results import About, Result, tidy

SHADES = 60  # bars of the histogram of confidences: four in each bin
QUANTITIES = (*MEANS, "ece", "signed_ece", "adaptive_ece")
CLASS_QUANTITIES = ("accuracy", "precision", "confidence")


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictionResult(Result, exam="prediction"):
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

    temperature: float  # that logits were divided by
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    drawn: np.ndarray  # (replicates, quantities): of other models on the same images, replicates are paired
    bin_count: np.ndarray
    bin_confidence: np.ndarray  # mean in each bin; NaN in an empty one
    bin_accuracy: np.ndarray
    bin_low: np.ndarray  # of the accuracy, as a binomial share
    bin_high: np.ndarray
    histogram: np.ndarray  # (60, 2) images by confidence: right, wrong
    class_names: tuple[str, ...]
    class_count: np.ndarray  # (classes,) images of the class
    class_predicted: np.ndarray  # (classes,) images taken for it
    class_value: np.ndarray  # (classes, 3) in the order of CLASS_QUANTITIES; NaN where there is no image
    class_low: np.ndarray
    class_high: np.ndarray
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
    def ece(self) -> float:
        """Expected calibration error."""
        return self.quantity("ece")

    def quantity(self, name: str) -> float:
        """The value of one of `QUANTITIES`."""
        return float(self.value[QUANTITIES.index(name)])

    def outcomes(self) -> tuple[np.ndarray, np.ndarray]:
        """Places in the data of the images that were seen, ascending, and whether each is right."""
        seen = images_of(self.seen)
        return seen, np.isin(seen, images_of(self.right))

    def replicates(self) -> dict[str, np.ndarray]:
        """Every quantity, (1 + replicates,): the value, then what each bootstrap replicate gives."""
        found = {q: np.append(self.value[i], self.drawn[:, i]) for i, q in enumerate(QUANTITIES)}
        if self.scaling is not None:
            value, drawn = self.scaling.value, self.scaling.drawn
            found |= {q: np.append(value[i], drawn[:, i]) for i, q in enumerate(SCALED_QUANTITIES)}
        return found

    def table(self) -> pd.DataFrame:
        """One row per quantity; after temperature="fit" also those of the scaled predictions, on half of the images."""
        own = tidy(QUANTITIES, self.value, self.low, self.high, self.n)
        if self.scaling is None:
            return own
        scaled = tidy(SCALED_QUANTITIES, self.scaling.value, self.scaling.low, self.scaling.high, self.scaling.n)
        scaled.loc[0, "n"] = self.scaling.n_fitted
        return pd.concat([own, scaled], ignore_index=True)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The quantities, the reliability diagram bin by bin, the histogram of confidences, and the classes."""
        edges = np.arange(BINS + 1) / BINS
        bins = {"low_edge": edges[:-1], "high_edge": edges[1:], "count": self.bin_count}
        bins |= {"confidence": self.bin_confidence, "accuracy": self.bin_accuracy}
        bins |= {"accuracy_low": self.bin_low, "accuracy_high": self.bin_high}
        edges = np.arange(SHADES + 1) / SHADES
        shades = {"low_edge": edges[:-1], "high_edge": edges[1:]}
        shades |= {"right": self.histogram[:, 0], "wrong": self.histogram[:, 1]}
        return {
            **super().tables(),
            "reliability": pd.DataFrame(bins),
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
                "value": self.class_value[rows, columns],
                "low": self.class_low[rows, columns],
                "high": self.class_high[rows, columns],
                "n": counts[rows, columns],
            }
        )
