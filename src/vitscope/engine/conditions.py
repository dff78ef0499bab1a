"""The same images under several conditions: corrupted, occluded, attacked, or as they are.

Under each condition the predictions are scored as in `prediction`. Bootstrap weights depend on the seed and the place
of an image in the data alone, so that replicate r of one condition and of another, or of another model, has drawn the
same images: the difference of the two is a replicate of the paired difference.

Where data and model are about pixels, every pixel is a prediction, and there is the mIoU besides; images are what the
bootstrap draws (`pixel_scores.py`).

Intervals: of accuracies Wilson's, of drops Agresti and Min's (`vitscope.core.statistics`), with the bootstrap's
standard error where scores are means over conditions; of calibration errors see `scores`; of other means the
middle 95 % of the replicates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from vitscope.core import distributed
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
from vitscope.data.task_data import TaskData
from vitscope.engine.exam import OwnNumbers
from vitscope.engine.own_passes import OwnPasses
from vitscope.engine.pixel_scores import replicate_tables, require_maps, score_images
from vitscope.engine.scores import (
    check_predictions,
    confidence_bins,
    error_interval,
    least_error,
    lengthened,
    scores,
)
from vitscope.results.condition_rows import BINS, MEANS, QUANTITIES, ConditionTable, Headline, drop_interval
from vitscope.tasks.segmentation import mean_iou

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


class MaskedScores(ConditionScores):
    """The same over the pixels of images, with the pixels of every class."""

    classes: Tensor  # (classes, 3, 1 + replicates): right, there, predicted

    def __init__(self, seed: int, pictures: TaskData, model: str) -> None:
        super().__init__(seed)
        self._pictures, self._model = pictures, model
        self.add_sums(classes=(0, 3, 1 + REPLICATES))

    def update(self, logits: Tensor, labels: Tensor, indices: Tensor) -> None:
        """Take in the predictions (N, classes, height, width) for the images at these places of the data."""
        require_maps(logits, self._model)
        columns, tables, _ = score_images(logits, indices, self._pictures)
        weights = torch.from_numpy(poisson_weights(indices.cpu().numpy(), self._seed))
        self.sums += weights.T @ columns[:, :COLUMNS]
        self.filled += columns[:, COLUMNS:].sum(0)
        self.classes = lengthened(self.classes, logits.shape[1])
        self.classes += torch.einsum("nck,nr->kcr", tables, weights)
        self.n += int((columns[:, 0] > 0).sum())

    def finish(self) -> dict[str, Tensor]:
        """See `OwnNumbers`; a process that has seen no image knows no class yet."""
        self.classes = lengthened(self.classes, max(distributed.gather(len(self.classes))))
        return super().finish()


def condition_scores(own: OwnPasses) -> ConditionScores:
    """What the scores under one condition are collected in."""
    seed = own.common["seed"]
    if own.pictures is None:
        return ConditionScores(seed)
    return MaskedScores(seed, own.pictures, own.common["model"])


def drawn_miou(scores: Part) -> np.ndarray | None:
    """(1 + replicates,): the mIoU under a condition, plain and in every replicate; None of whole images."""
    return mean_iou(replicate_tables(scores["classes"])) if "classes" in scores else None


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
        of_pixels = "classes" in reference
        found = [mean_scores(group, self.n, blocks=of_pixels) for group in groups]
        self.drawn, self.low, self.high = (np.stack(numbers) for numbers in zip(*found, strict=True))
        self.drops = drawn_accuracy(reference) - self.drawn[:, :, _ACCURACY]
        self.miou: np.ndarray | None = None  # (rows, 1 + replicates)
        if of_pixels:
            drawn = [[mean_iou(replicate_tables(part["classes"])) for part in group] for group in groups]
            self.miou = np.stack([np.mean(group, axis=0) for group in drawn])

    @property
    def main(self) -> tuple[str, ...]:
        """The quantities by which models are compared first."""
        return ("accuracy",) if self.miou is None else ("miou", "accuracy")

    def table(self) -> ConditionTable:
        """Values and intervals of all rows."""
        drop = Estimate(self.drops[:, 0], *drop_interval(self.drops, self.n))
        miou = None
        if self.miou is not None:
            miou = np.stack([self.miou[:, 0], *mean_interval_of_few(self.miou[:, 1:].T, self.n)])
        return ConditionTable(self.n, self.drawn[:, 0], self.low, self.high, drop, miou)

    def headline(self, quantity: str, condition: str, row: int = 0) -> Headline:
        """One number of a row."""
        if quantity == "miou":
            assert self.miou is not None
            found, ends = self.miou[row], mean_interval_of_few(self.miou[row, 1:], self.n)
            low, high = (float(end) for end in ends)
            return Headline(quantity, condition, float(found[0]), low, high, found.copy())
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


def main_headlines(condition: str, parts: Sequence[Part]) -> list[Headline]:
    """The mean accuracy, and of pixels the mIoU, over what `ConditionScores` found under one or more conditions."""
    scores = Scored([parts], parts[0])
    return [scores.headline(quantity, condition) for quantity in scores.main]


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
    scores = {name: condition_scores(own) for name in conditions}

    def take(images: Tensor, labels: Tensor, indices: Tensor) -> None:
        for name, logits in predict(images, labels, indices):
            scores[name].update(*own.readout(logits, labels, indices), indices)

    own.take_in(exam, scores, take)
    return {name: found.finish() for name, found in scores.items()}
