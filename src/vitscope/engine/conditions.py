"""The same images under several conditions, summed up: corrupted, occluded, attacked, or as they are.

Under each condition predictions are scored as `condition_scores.py` says. Bootstrap weights depend on the seed and the
place of an image in the data alone, so that replicate r of one condition and of another, or of another model, has drawn
the same images: the difference of the two is a replicate of the paired difference.

Intervals: of accuracies Wilson's, of drops Agresti and Min's (`vitscope.core.statistics`), with the bootstrap's
standard error where scores are means over conditions; of calibration errors see `scores`; of other means the middle
95 % of the replicates, corrected for few images; of mIoU and AP as in `segmentation` and `detection`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from vitscope.core.bootstrap import biased_intervals, mean_interval_of_few, of_few, standard_error
from vitscope.core.statistics import Estimate, score_interval, share_interval
from vitscope.engine.condition_scores import Part, condition_scores
from vitscope.engine.own_passes import OwnPasses
from vitscope.engine.pixel_scores import replicate_tables
from vitscope.engine.scores import error_interval, least_error
from vitscope.results.condition_rows import (
    AP_QUANTITIES,
    BINS,
    MEANS,
    QUANTITIES,
    ConditionTable,
    Headline,
    drop_interval,
)
from vitscope.tasks.segmentation import mean_iou

SHARES = ("accuracy", "top5")
_ACCURACY, _ECE = QUANTITIES.index("accuracy"), QUANTITIES.index("ece")
Predict = Callable[[Tensor, Tensor, Tensor], Iterable[tuple[str, Any]]]


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
    """(1 + replicates,): the accuracy under a condition, plain and in every replicate; of objects there is none."""
    if "ap" in scores:
        return np.full(len(scores["ap"]), np.nan)
    return replicates(scores["sums"])[:, _ACCURACY]


def drawn_score(scores: Part) -> np.ndarray:
    """(1 + replicates,): what drops are of: the accuracy, of objects the AP of boxes."""
    return np.asarray(scores["ap"][:, 0]) if "ap" in scores else drawn_accuracy(scores)


class Scored:
    """Means over groups of conditions, each group a row, with their drop against a reference.

    `drawn` is (rows, 1 + replicates, quantities), `low` and `high` are intervals of the means over images; NaN of
    objects, which have `own` quantities, as pixels have besides: by name, (rows, 1 + replicates).
    """

    def __init__(self, groups: Sequence[Sequence[Part]], reference: Part) -> None:
        self.n = int(reference["n"])
        self._counting = int(reference.get("with_objects", self.n))
        self.own = _own_quantities(groups, reference)
        if "ap" in reference:
            replicates = len(reference["ap"])
            self.drawn = np.full((len(groups), replicates, len(QUANTITIES)), np.nan)
            self.low = self.high = self.drawn[:, 0]
            scored = self.own[AP_QUANTITIES[0]]
        else:
            blocks = "classes" in reference or "questions" in reference
            found = [mean_scores(group, self.n, blocks) for group in groups]
            self.drawn, self.low, self.high = (np.stack(numbers) for numbers in zip(*found, strict=True))
            scored = self.drawn[:, :, _ACCURACY]
        self.drops = drawn_score(reference) - scored

    @property
    def main(self) -> tuple[str, ...]:
        """The quantities by which models are compared first."""
        if "miou" in self.own:
            return "miou", "accuracy"
        return tuple(self.own) or ("accuracy",)

    def table(self) -> ConditionTable:
        """Values and intervals of all rows."""
        drop = Estimate(self.drops[:, 0], *drop_interval(self.drops, self.n))
        own = {
            name: np.stack([drawn[:, 0], *biased_intervals(drawn.T, self._counting)])
            for name, drawn in self.own.items()
        }
        miou, aps = own.get("miou"), [own[name] for name in AP_QUANTITIES if name in own]
        ap = np.stack(aps, -1) if aps else None
        return ConditionTable(self.n, self.drawn[:, 0], self.low, self.high, drop, miou, ap)

    def headline(self, quantity: str, condition: str, row: int = 0) -> Headline:
        """One number of a row."""
        if quantity in self.own:
            found = self.own[quantity][row]
            numbers = Estimate(found[0], *biased_intervals(found, self._counting))
            return Headline(quantity, condition, numbers.each(float), found.copy())
        i = QUANTITIES.index(quantity)
        drawn = self.drawn[row, :, i]
        numbers = Estimate(drawn[0], self.low[row, i], self.high[row, i])
        return Headline(quantity, condition, numbers.each(float), drawn.copy())


def _own_quantities(groups: Sequence[Sequence[Part]], reference: Part) -> dict[str, np.ndarray]:
    """What the task has besides, or instead: (rows, 1 + replicates) by name, means over the conditions of a group."""
    if "classes" in reference:
        drawn = [[mean_iou(replicate_tables(part["classes"])) for part in group] for group in groups]
        return {"miou": np.stack([np.mean(group, axis=0) for group in drawn])}
    if "ap" not in reference:
        return {}
    found = np.stack([np.mean([part["ap"].numpy() for part in group], axis=0) for group in groups])
    return {name: found[:, :, k] for k, name in enumerate(AP_QUANTITIES[: found.shape[2]])}


def nothing_scored(n: int = 0) -> ConditionTable:
    """The table of an exam that has no conditions for a model."""
    rows = np.zeros((3, 0, len(QUANTITIES)))
    return ConditionTable(n, *Estimate(*rows), Estimate(*np.zeros((3, 0))))


def scored(parts: Sequence[Part], reference: Part) -> ConditionTable:
    """Every condition's quantities with intervals, and its drop against the reference."""
    return Scored([[part] for part in parts], reference).table()


def main_headlines(condition: str, parts: Sequence[Part]) -> list[Headline]:
    """The mean accuracy (of pixels also the mIoU, of objects the AP) found under some conditions."""
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

    own.accumulate(exam, scores, take)
    return {name: found.finish() for name, found in scores.items()}
