"""The same images under several conditions: corrupted, occluded, attacked, or as they are.

Under each condition the predictions are scored as in `prediction`. Bootstrap weights depend on the seed and the place
of an image in the data alone, so that replicate r of one condition and of another, or of another model, has drawn the
same images: the difference of the two is a replicate of the paired difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vitscope.exams.bootstrap import REPLICATES, biased_interval, percentile_interval, poisson_weights
from vitscope.exams.own_passes import OwnNumbers
from vitscope.exams.prediction import BINS, MEANS, check_predictions, confidence_bins, scores

QUANTITIES = (*MEANS, "ece")
COLUMNS = 1 + len(MEANS) + BINS  # weight, scores, calibration gap of each bin


def score_columns(logits: Tensor, labels: Tensor) -> Tensor:
    """(N, COLUMNS): what every prediction adds to the sums."""
    per_image = scores(logits, labels)
    right, confidence = per_image[:, :1], per_image[:, -1:]
    gaps = confidence_bins(confidence[:, 0]) * (confidence - right)
    return torch.cat([torch.ones_like(right), per_image, gaps], 1)


class ConditionScores(OwnNumbers):
    """Sums over the images seen under one condition, plain (first row) and in every bootstrap replicate."""

    n: Tensor
    sums: Tensor

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self.add_sum("sums", (1 + REPLICATES, COLUMNS))
        self.add_sum("n", (), torch.int64)

    def update(self, logits: Tensor, labels: Tensor, indices: Tensor) -> None:
        """Take in the predictions (N, classes) for the images at these places of the data."""
        logits, labels, indices = logits.detach().cpu(), labels.cpu(), indices.cpu()
        check_predictions(logits, labels, indices)
        columns = score_columns(logits, labels)
        weights = torch.from_numpy(poisson_weights(indices.numpy(), self._seed))
        self.sums += weights.T @ columns
        self.n += len(labels)

    def compute(self) -> dict[str, Tensor]:
        """The sums of all processes: what a part of an exam keeps."""
        return {"sums": self.sums.clone(), "n": self.n.clone()}


@dataclass(frozen=True)
class ConditionTable:
    """Scores by condition; arrays are (conditions, quantities) in the order of `QUANTITIES`.

    `drop` is what accuracy loses against the reference condition on the same images, (conditions,).
    """

    n: int
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    drop: np.ndarray
    drop_low: np.ndarray
    drop_high: np.ndarray


def replicates(sums: Tensor) -> np.ndarray:
    """(1 + replicates, quantities): every quantity, plain and in every replicate."""
    found = sums.numpy()
    with np.errstate(invalid="ignore", divide="ignore"):
        means = found[:, 1 : 1 + len(MEANS)] / found[:, :1]
        ece = np.abs(found[:, 1 + len(MEANS) :]).sum(1) / found[:, 0]
    return np.column_stack([means, ece])


def drawn_accuracy(scores: Mapping[str, Tensor]) -> np.ndarray:
    """(1 + replicates,): the accuracy under a condition, plain and in every replicate."""
    return replicates(scores["sums"])[:, QUANTITIES.index("accuracy")]


def scored(parts: Sequence[Mapping[str, Tensor]], reference: Mapping[str, Tensor]) -> ConditionTable:
    """Every condition's quantities with intervals, and its drop in accuracy against the reference.

    Args:
        parts: What `ConditionScores.finish` gave, per condition.
        reference: The same of the condition that drops are measured from.
    """
    drawn = np.stack([replicates(part["sums"]) for part in parts])
    low, high = _intervals(drawn)
    accuracy = QUANTITIES.index("accuracy")
    drops = replicates(reference["sums"])[:, accuracy] - drawn[:, :, accuracy]
    drop_low, drop_high = percentile_interval(drops[:, 1:].T)
    return ConditionTable(
        n=int(reference["n"]),
        value=drawn[:, 0],
        low=low,
        high=high,
        drop=drops[:, 0],
        drop_low=drop_low,
        drop_high=drop_high,
    )


def mean_of_conditions(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, tuple[float, float, float]]:
    """Each quantity's mean over conditions, with the interval of that mean over images."""
    drawn = np.stack([replicates(part["sums"]) for part in parts]).mean(0)[None]
    low, high = _intervals(drawn)
    return {
        quantity: (float(drawn[0, 0, i]), float(low[0, i]), float(high[0, i]))
        for i, quantity in enumerate(QUANTITIES)
    }


def _intervals(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of (conditions, 1 + replicates, quantities); a calibration error can only be raised by noise."""
    low, high = (np.array(end) for end in percentile_interval(drawn[:, 1:].swapaxes(0, 1)))
    ece = QUANTITIES.index("ece")
    for row, numbers in enumerate(drawn[:, :, ece]):
        low[row, ece], high[row, ece] = biased_interval(float(numbers[0]), numbers[1:])
    return low, high
