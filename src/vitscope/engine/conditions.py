"""The same images under several conditions: corrupted, occluded, attacked, or as they are.

Under each condition the predictions are scored as in `prediction`. Bootstrap weights depend on the seed and the place
of an image in the data alone, so that replicate r of one condition and of another, or of another model, has drawn the
same images: the difference of the two is a replicate of the paired difference.

Intervals: of accuracies Wilson's, of drops Agresti and Min's (`vitscope.core.statistics`), with the bootstrap's
standard error where scores are means over conditions; of calibration errors see `scores`; of other means the
middle 95 % of the replicates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from vitscope.core.statistics import (
    REPLICATES,
    Estimate,
    mean_interval_of_few,
    of_few,
    poisson_weights,
    score_interval,
    share_interval,
    standard_error,
)
from vitscope.engine.exam import OwnNumbers
from vitscope.engine.own_passes import OwnPasses
from vitscope.engine.scores import check_predictions, confidence_bins, error_interval, least_error, scores
from vitscope.results.condition_rows import BINS, MEANS, QUANTITIES, ConditionTable, Headline, drop_interval

SHARES = ("accuracy", "top5")
COLUMNS = 1 + len(MEANS) + BINS  # weight, scores, calibration gap of each bin
FILLED = 2 * BINS  # whether an image is in each bin, and whether it is in it and right
_ACCURACY, _ECE = QUANTITIES.index("accuracy"), QUANTITIES.index("ece")
Part = Mapping[str, Tensor]  # what `ConditionScores.finish` gives
Predict = Callable[[Tensor, Tensor, Tensor], Iterable[tuple[str, Tensor]]]


def score_columns(logits: Tensor, labels: Tensor) -> Tensor:
    """(N, COLUMNS): what every prediction adds to the sums."""
    per_image = scores(logits, labels)
    right, confidence = per_image[:, :1], per_image[:, -1:]
    gaps = confidence_bins(confidence[:, 0]) * (confidence - right)
    return torch.cat([torch.ones_like(right), per_image, gaps], 1)


def filled_bins(columns: Tensor) -> Tensor:
    """(N, FILLED): the bin of every prediction, from its `score_columns`."""
    confidence, right = columns[:, 1 + MEANS.index("confidence")], columns[:, 1 + MEANS.index("accuracy")]
    bins = confidence_bins(confidence)
    return torch.cat([bins, bins * right[:, None]], 1)


class ConditionScores(OwnNumbers):
    """Sums over the images seen under one condition, plain (first row) and in every bootstrap replicate."""

    n: Tensor
    sums: Tensor
    filled: Tensor

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self.add_sums(sums=(1 + REPLICATES, COLUMNS), filled=(FILLED,))
        self.add_counts("n")

    def update(self, logits: Tensor, labels: Tensor, indices: Tensor) -> None:
        """Take in the predictions (N, classes) for the images at these places of the data."""
        logits, labels, indices = logits.detach().cpu(), labels.cpu(), indices.cpu()
        check_predictions(logits, labels, indices)
        columns = score_columns(logits, labels)
        weights = torch.from_numpy(poisson_weights(indices.numpy(), self._seed))
        self.sums += weights.T @ columns
        self.filled += filled_bins(columns).sum(0)
        self.n += len(labels)

    def compute(self) -> dict[str, Tensor]:
        """The sums of all processes: what a part of an exam keeps."""
        return {name: total.clone() for name, total in self.state().items()}


def replicates(sums: Tensor) -> np.ndarray:
    """(1 + replicates, quantities): every quantity, plain and in every replicate."""
    found = sums.numpy()
    with np.errstate(invalid="ignore", divide="ignore"):
        means = found[:, 1 : 1 + len(MEANS)] / found[:, :1]
        ece = np.abs(found[:, 1 + len(MEANS) :]).sum(1) / found[:, 0]
    return np.column_stack([means, ece])


def drawn_accuracy(scores: Part) -> np.ndarray:
    """(1 + replicates,): the accuracy under a condition, plain and in every replicate."""
    return replicates(scores["sums"])[:, _ACCURACY]


class Scored:
    """Means over groups of conditions, each group a row, with their drop in accuracy against a reference.

    `drawn` is (rows, 1 + replicates, quantities), `low` and `high` are intervals of the means over images.
    """

    def __init__(self, groups: Sequence[Sequence[Part]], reference: Part) -> None:
        self.n = int(reference["n"])
        found = [mean_scores(group, self.n) for group in groups]
        self.drawn, self.low, self.high = (np.stack(numbers) for numbers in zip(*found, strict=True))
        self.drops = drawn_accuracy(reference) - self.drawn[:, :, _ACCURACY]

    def table(self) -> ConditionTable:
        """Values and intervals of all rows."""
        drop = Estimate(self.drops[:, 0], *drop_interval(self.drops, self.n))
        return ConditionTable(self.n, self.drawn[:, 0], self.low, self.high, drop)

    def headline(self, quantity: str, condition: str, row: int = 0) -> Headline:
        """One number of a row."""
        i = QUANTITIES.index(quantity)
        drawn, low, high = self.drawn[row, :, i], float(self.low[row, i]), float(self.high[row, i])
        return Headline(quantity, condition, float(drawn[0]), low, high, drawn.copy())


def nothing_scored(n: int = 0) -> ConditionTable:
    """The table of an exam that has no conditions for a model."""
    rows = np.zeros((3, 0, len(QUANTITIES)))
    return ConditionTable(n, *Estimate(*rows), Estimate(*np.zeros((3, 0))))


def scored(parts: Sequence[Part], reference: Part) -> ConditionTable:
    """Every condition's quantities with intervals, and its drop in accuracy against the reference."""
    return Scored([[part] for part in parts], reference).table()


def accuracy_headline(condition: str, parts: Sequence[Part]) -> Headline:
    """The mean accuracy over what `ConditionScores` found under one or more conditions."""
    return Scored([parts], parts[0]).headline("accuracy", condition)


def mean_scores(
    parts: Sequence[Part], n: int, blocks: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means over conditions (1 + replicates, quantities), and their intervals (quantities,).

    `parts` are sums over the same `n` images, or `blocks` of them if these are what the bootstrap draws.
    """
    drawn: np.ndarray = np.mean([replicates(part["sums"]) for part in parts], axis=0)
    low, high = mean_interval_of_few(drawn[1:], n)
    for i in map(QUANTITIES.index, SHARES):
        if len(parts) == 1 and not blocks:
            low[i], high[i] = share_interval(n * drawn[0, i], n)
        else:
            error = standard_error(drawn[1:, i])
            low[i], high[i] = score_interval(drawn[0, i], of_few(error, n) if blocks else error, n)
    sums, filled = (np.stack([part[name].numpy() for part in parts]) for name in ("sums", "filled"))
    with np.errstate(invalid="ignore", divide="ignore"):
        gaps = (sums[..., 1 + len(MEANS) :] / sums[..., :1]).swapaxes(0, 1)
    low[_ECE], high[_ECE] = error_interval(gaps, least_error(filled[:, :BINS], filled[:, BINS:], n))
    return drawn, low, high


def score_conditions(
    exam: str, own: OwnPasses, conditions: Iterable[str], predict: Predict
) -> dict[str, dict[str, Tensor]]:
    """What `ConditionScores` gives for each condition, over all images of all processes.

    `predict` goes from images, labels and indices of a batch to each condition's name and logits.
    """
    scores = {name: ConditionScores(own.common["seed"]) for name in conditions}

    def take(images: Tensor, labels: Tensor, indices: Tensor) -> None:
        for name, logits in predict(images, labels, indices):
            scores[name].update(*own.readout(logits, labels, indices), indices)

    own.take_in(exam, scores, take)
    return {name: found.finish() for name, found in scores.items()}
