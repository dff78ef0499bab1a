"""What is collected of the same images under one condition: corrupted, occluded, attacked, or as they are.

Predictions of whole images are scored as in `prediction`. Where data and model are for another task,

    segmentation   every pixel is a prediction, and there is the mIoU besides (`pixel_scores.py`)
    detection      there is the average precision of boxes and masks alone (`object_scores.py`)
    vqa            every question is a prediction (`answer_scores.py`)

The bootstrap draws images, with all of their pixels, objects and questions.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.core import distributed
from vitscope.core.bootstrap import REPLICATES, poisson_weights
from vitscope.data.task_data import TaskData
from vitscope.engine.answer_scores import bits_set, score_answers, seen_once, with_pictures
from vitscope.engine.exam import ProcedureSums
from vitscope.engine.object_scores import ObjectRows
from vitscope.engine.own_passes import OwnPasses
from vitscope.engine.pixel_scores import require_maps, score_images
from vitscope.engine.scores import check_predictions, confidence_bins, lengthened, scores
from vitscope.results.condition_rows import BINS, MEANS

COLUMNS = 1 + len(MEANS) + BINS  # weight, scores, calibration gap of each bin
FILLED = 2 * BINS  # whether an image is in each bin, and whether it is in it and right
Part = Mapping[str, Tensor]  # what `ConditionScores.finish` gives


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


class ConditionScores(ProcedureSums):
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

    def compute(self) -> dict[str, Any]:
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

    def finish(self) -> dict[str, Any]:
        """See `ProcedureSums`; a process that has seen no image knows no class yet."""
        self.classes = lengthened(self.classes, max(distributed.gather(len(self.classes))))
        return super().finish()


class AnswerScores(ConditionScores):
    """The same over questions; those about one picture are drawn together."""

    seen: Tensor  # (words,) bits of the pictures

    def __init__(self, seed: int, pictures: TaskData, model: str) -> None:
        super().__init__(seed)
        self._pictures, self._model = pictures, model
        self.add_sum("seen", (0,), torch.int64)

    def update(self, logits: Tensor, labels: Tensor, indices: Tensor) -> None:
        """Take in the scores (N, answers) for the questions at these places of the data."""
        columns = score_answers(logits, indices, self._pictures, self._model)
        asked_about = self._pictures.picture_numbers[indices.cpu().numpy()]
        self.sums += torch.from_numpy(poisson_weights(asked_about, self._seed)).T @ columns[:, :COLUMNS]
        self.filled += columns[:, COLUMNS:].sum(0)
        self.seen = with_pictures(self.seen, asked_about)
        self.n += len(indices)

    def finish(self) -> dict[str, Any]:
        """See `ProcedureSums`; a picture that several processes were asked about counts once."""
        own, self.seen = self.seen, seen_once(self.seen)
        try:
            return super().finish()
        finally:
            self.seen = own

    def compute(self) -> dict[str, Any]:
        """The sums, with `n` pictures."""
        found = super().compute()
        pictures = torch.tensor(bits_set(found.pop("seen")))
        return {**found, "questions": found["n"], "n": pictures}


class ObjectScores(ObjectRows, ProcedureSums):
    """Average precision under one condition."""

    n: Tensor

    def __init__(self, seed: int, pictures: TaskData, size: tuple[int, int]) -> None:
        super().__init__()
        self._seed, self._pictures, self._size = seed, pictures, size
        self.add_objects(("",))
        self.add_counts("n")

    def update(self, found: Any, labels: Tensor, indices: Tensor) -> None:
        """Take in what was found in the images at these places of the data."""
        self.take_objects(found, indices, self._pictures, self._size, self._seed)
        self.n += len(indices)

    def compute(self) -> dict[str, Any]:
        """(1 + replicates, quantities) of `AP_QUANTITIES`: of boxes, and of masks if there are any."""
        objects = self.measured(self._seed, len(self._pictures.classes))
        columns = [part for kind in objects.kinds for part in objects.average_precision(kind)[:2]]
        return {
            "ap": torch.from_numpy(np.stack(columns, 1)),
            "n": self.n.clone(),
            "with_objects": torch.tensor(objects.images_with_objects()),
        }


Scores = ConditionScores | ObjectScores


def condition_scores(own: OwnPasses) -> Scores:
    """What the scores under one condition are collected in."""
    seed, pictures, model = own.common["seed"], own.pictures, own.common["model"]
    if pictures is None:
        return ConditionScores(seed)
    if pictures.task == "detection":
        _, height, width = own.input_shape
        return ObjectScores(seed, pictures, (height, width))
    return (MaskedScores if pictures.task == "segmentation" else AnswerScores)(seed, pictures, model)
