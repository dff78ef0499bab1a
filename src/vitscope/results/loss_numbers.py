"""Numbers of the loss: the two that sum the spectrum of its Hessian up, and its values at points in weight space.

NEP = share of the negative values,        APE = mean of the positive ones

Eigenvalues of one batch belong together, so what the interval counts are batches. NEP has Wilson's interval with the
standard error over batches: where no batch has a negative value, it is that of 0 of so many batches, not of nothing.
APE, and differences between models on the same batches, have Student's (NEP's difference: Agresti and Min's) with the
standard error of a bootstrap over batches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vitscope.core.bootstrap import REPLICATES, few_interval, of_few, poisson_weights, standard_error
from vitscope.core.statistics import Estimate, difference_interval, score_interval, without_interval

Quantity = Literal["nep", "ape"]


def negative_proportion(eigenvalues: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(R,) NEP of eigenvalues (batches, k), for each column of batch weights (batches, R)."""
    negative = (eigenvalues < 0).sum(1)
    with np.errstate(invalid="ignore"):
        return (negative @ weights) / (eigenvalues.shape[1] * weights.sum(0))


def average_positive(eigenvalues: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(R,) APE of eigenvalues (batches, k), for each column of batch weights (batches, R); NaN if none is positive."""
    positive = eigenvalues > 0
    with np.errstate(invalid="ignore"):
        return (np.where(positive, eigenvalues, 0.0).sum(1) @ weights) / (positive.sum(1) @ weights)


STATISTICS: dict[Quantity, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "nep": negative_proportion,
    "ape": average_positive,
}


def replicates(eigenvalues: np.ndarray, quantity: Quantity, seed: int, count: int = REPLICATES) -> np.ndarray:
    """(1 + count,) the quantity, and what it is with batches drawn anew from those there are."""
    return STATISTICS[quantity](eigenvalues, poisson_weights(np.arange(len(eigenvalues)), seed, count))


def summed_up(eigenvalues: np.ndarray, seed: int) -> dict[str, Any]:
    """NEP and APE, under the names they have in a result; the intervals of a single batch are NaN."""
    fields: dict[str, Quantity] = {"negative_share": "nep", "positive_mean": "ape"}
    drawn = {name: replicates(eigenvalues, quantity, seed) for name, quantity in fields.items()}
    return {
        name: Estimate(drawn[name][0], *_interval(drawn[name], quantity, eigenvalues)).each(float)
        for name, quantity in fields.items()
    }


def difference(first: np.ndarray, second: np.ndarray, quantity: Quantity, seed: int) -> Estimate[float]:
    """The quantity of one model minus that of another on the same batches (batches, k), and its interval."""
    drawn = replicates(first, quantity, seed) - replicates(second, quantity, seed)
    value, error, n = float(drawn[0]), standard_error(drawn[1:]), len(first)
    if quantity == "nep" and n > 1:
        low, high = difference_interval(value, of_few(error, n), n)
    else:
        low, high = few_interval(value, error, n)
    return Estimate(value, low, high).each(float)


def _interval(
    drawn: np.ndarray, quantity: Quantity, eigenvalues: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    n = len(eigenvalues)
    if quantity == "nep" and n > 1:
        shares = (eigenvalues < 0).mean(1)
        return score_interval(drawn[0], of_few(shares.std() / np.sqrt(n), n), n)
    low, high = few_interval(drawn[0], standard_error(drawn[1:]), n)
    return np.maximum(low, 0.0), high  # positive values have a positive mean


CLASSIFICATION = "classification"
# what the loss of each task is called, which results hold as `nll`, and what it counts as right
LOSSES = {
    CLASSIFICATION: "NLL",
    "segmentation": "NLL of pixels",
    "detection": "Loss of detection",
    "vqa": "Loss of answers",
}
ACCURACIES = {"segmentation": "Pixel accuracy"}


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingLoss:
    """Which loss a result is about: that of a task on augmented images, with the l2 term of a weight decay."""

    weight_decay: float
    convention: str  # how the decay becomes the l2 term
    decay_all: bool
    augmentation: str
    task: str = CLASSIFICATION  # whose loss it is


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchCurvature(TrainingLoss):
    """What spectra share: the curvature of the loss of each mini-batch, in the parameters that were asked for."""

    batch_size: int
    params: str
    parameters: int  # how many numbers those are


@dataclass(frozen=True, eq=False, kw_only=True)
class LossPoints(TrainingLoss):
    """What landscapes and lines between models share: `nll`, `l2` and more at every point, intervals but for l2."""

    nll: Estimate[np.ndarray]
    accuracy: Estimate[np.ndarray]
    l2: np.ndarray
    batch_norm: str

    @property
    def has_accuracy(self) -> bool:
        """Whether the task says what is right: that of objects does not, and its accuracy is NaN."""
        return not bool(np.isnan(self.accuracy.value).all())

    def label(self, quantity: str) -> str:
        """What stands at an axis of a quantity."""
        loss = LOSSES.get(self.task, "Loss")
        labels = {"nll": loss, "loss": f"{loss} + l2", "rise": f"Rise of the {loss}"}
        labels["accuracy"] = ACCURACIES.get(self.task, "Accuracy")
        return labels.get(quantity, quantity)

    @property
    def loss(self) -> np.ndarray:
        """NLL + l2."""
        return np.asarray(self.nll.value + self.l2)

    @property
    def not_finite(self) -> int:
        """At how many points the NLL is infinite or not a number."""
        return int((~np.isfinite(self.nll.value)).sum())

    def of(self, quantity: str) -> Estimate[np.ndarray]:
        """A quantity at every point, with its interval over images; that of l2, which has none, is NaN."""
        if quantity == "l2":
            return without_interval(self.l2)
        if quantity == "loss":
            return self.nll.each(lambda numbers: numbers + self.l2)
        found: Estimate[np.ndarray] = getattr(self, quantity)
        return found
