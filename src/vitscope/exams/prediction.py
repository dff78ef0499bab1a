"""How good the predictions are, and whether the model knows it.

For image i with label y, probabilities p = softmax(logits), confidence c = max p and prediction argmax p:

    accuracy = mean of [prediction = y]        top5  = mean of [y among the 5 largest]
    nll      = mean of -log p_y                brier = mean of sum_k (p_k - [k = y])^2, from 0 to 2
    ece      = sum_b |sum_{i in b} (c_i - [prediction_i = y_i])| / n

with 15 confidence bins b = (lo, hi] of equal width, so that a confidence of exactly 1 is in the last one. The
intervals are bootstrap intervals over images.
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from vitscope.errors import BadData, VitscopeError
from vitscope.exams.base import Accumulator, Batch, Subject
from vitscope.exams.bootstrap import REPLICATES, biased_interval, percentile_interval, poisson_weights
from vitscope.exams.one_pass import examine
from vitscope.results import About, Result, tidy

BINS = 15
MEANS = ("accuracy", "top5", "nll", "brier", "confidence")
QUANTITIES = (*MEANS, "ece")


def scores(logits: Tensor, labels: Tensor) -> Tensor:
    """(N, 5): per image, what `MEANS` are the means of; in float64."""
    log_p = logits.double().log_softmax(1)
    p = log_p.exp()
    confidence = p.max(1).values
    ranked = logits.topk(min(5, logits.shape[1]), dim=1).indices == labels[:, None]
    true = labels[:, None]
    brier = p.square().sum(1) - 2 * p.gather(1, true)[:, 0] + 1
    nll = -log_p.gather(1, true)[:, 0]
    return torch.stack([ranked[:, 0].double(), ranked.any(1).double(), nll, brier, confidence], 1)


def confidence_bins(confidence: Tensor) -> Tensor:
    """(N, BINS): one-hot bin of each confidence; bins are (lo, hi]."""
    edges = torch.arange(1, BINS, dtype=torch.float64) / BINS
    return nn.functional.one_hot(torch.bucketize(confidence.contiguous(), edges, right=False), BINS).double()


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

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    bin_count: np.ndarray
    bin_confidence: np.ndarray  # mean in each bin; NaN in an empty one
    bin_accuracy: np.ndarray

    @property
    def accuracy(self) -> float:
        """Share of images whose prediction is right."""
        return float(self.value[QUANTITIES.index("accuracy")])

    @property
    def nll(self) -> float:
        """Mean negative log-likelihood, in nats."""
        return float(self.value[QUANTITIES.index("nll")])

    @property
    def ece(self) -> float:
        """Expected calibration error."""
        return float(self.value[QUANTITIES.index("ece")])

    def table(self) -> pd.DataFrame:
        """One row per quantity: accuracy, top5, nll, brier, confidence, ece."""
        return tidy(QUANTITIES, self.value, self.low, self.high, self.n)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The quantities, and the reliability diagram bin by bin."""
        edges = np.arange(BINS + 1) / BINS
        bins = {"low_edge": edges[:-1], "high_edge": edges[1:], "count": self.bin_count}
        bins |= {"confidence": self.bin_confidence, "accuracy": self.bin_accuracy}
        return {**super().tables(), "reliability": pd.DataFrame(bins)}


class PredictionAccumulator(Accumulator):
    """Sums of the scores and of each bin's calibration gap, plain and in every bootstrap replicate."""

    result = PredictionResult
    needs_labels = True
    evaluation = True

    n: Tensor
    sums: (
        Tensor  # (1 + replicates, 1 + means + bins): weight, scores, gap of each bin; the first row is plain
    )
    bins: Tensor  # (bins, 3): count, confidence, correct

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        shape = (1 + REPLICATES, 1 + len(MEANS) + BINS)
        self.add_state("sums", torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("bins", torch.zeros((BINS, 3), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("n", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, batch: Batch) -> None:
        """Take in the predictions of one batch of images."""
        logits, labels = batch.logits.detach().cpu(), batch.labels.cpu()
        check_predictions(logits, labels, batch.indices)
        per_image = scores(logits, labels)
        correct, confidence = per_image[:, 0], per_image[:, -1]
        bins = confidence_bins(confidence)
        one = torch.ones_like(confidence)
        columns = torch.cat([one[:, None], per_image, bins * (confidence - correct)[:, None]], 1)
        weights = torch.from_numpy(poisson_weights(batch.indices.cpu().numpy(), self.subject.seed))
        self.sums += weights.T @ columns
        self.bins += bins.T @ torch.stack([one, confidence, correct], 1)
        self.n += len(labels)

    def compute(self) -> dict[str, Any]:
        """Every quantity with its interval, and the reliability diagram."""
        sums, bins = self.sums.numpy(), self.bins.numpy().copy()
        with np.errstate(invalid="ignore", divide="ignore"):
            means = sums[:, 1 : 1 + len(MEANS)] / sums[:, :1]
            ece = np.abs(sums[:, 1 + len(MEANS) :]).sum(1) / sums[:, 0]
            in_bin = bins[:, 1:] / bins[:, :1]
        low, high = percentile_interval(means[1:])
        ece_low, ece_high = biased_interval(float(ece[0]), ece[1:])
        return {
            "n": int(self.n),
            "value": np.append(means[0], ece[0]),
            "low": np.append(low, ece_low),
            "high": np.append(high, ece_high),
            "bin_count": bins[:, 0].astype(np.int64),
            "bin_confidence": in_bin[:, 0],
            "bin_accuracy": in_bin[:, 1],
        }


def check_predictions(logits: Tensor, labels: Tensor, indices: Tensor) -> None:
    """Refuse what cannot be scored: no classes, labels that are none of them, or outputs that are not finite."""
    if logits.dim() != 2 or logits.shape[1] < 2:
        shape = tuple(logits.shape)
        raise VitscopeError(
            f"the model puts out {shape}, expected (images, classes); leave 'prediction' out of the exams"
        )
    classes = logits.shape[1]
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        image, label = int(indices.cpu()[outside][0]), int(labels[outside][0])
        raise BadData(
            f"image {image} has label {label}, the model has outputs 0 to {classes - 1}; "
            "give the model as many classes as the data, or correct the labels"
        )
    if not torch.isfinite(logits).all():
        image = int(indices[int((~torch.isfinite(logits)).any(1).nonzero()[0])])
        raise VitscopeError(
            f"the outputs for image {image} are not finite; check the weights and the preprocessing"
        )


def prediction(
    model: nn.Module,
    data: Any,
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> PredictionResult:
    """Examine `model`'s predictions on `data`; `examine` documents the arguments."""
    results = examine(model, data, [PredictionAccumulator], limit, batch_size, seed, device)
    return cast(PredictionResult, results["prediction"])
