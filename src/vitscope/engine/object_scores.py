"""What a detector finds, compared with what is there: rows of whole numbers, one for every detection.

Average precision is no sum over images, so that what is kept grows with them: of each detection (at most 100 in an
image) its score, image and class, and a number for every kind (boxes, masks) and range of sizes that says by its bits
at which IoU thresholds it is right, and at which it does not count (`tasks/average_precision.py`). That is 48 bytes, or
24 MB for 5,000 images with 100 detections each. Rows are put in the order of images in the end: processes, batches and
interruptions make no difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.core.bootstrap import poisson_weights
from vitscope.core.errors import UnsupportedModel
from vitscope.data.task_data import TaskData
from vitscope.engine.exam import Sums
from vitscope.tasks.average_precision import (
    THRESHOLDS,
    Found,
    Kind,
    Matched,
    class_precision,
    matched,
    mean_over_classes,
)
from vitscope.tasks.detection import compared

KINDS: tuple[Kind, ...] = ("bbox", "segm")
REPLICATES = 200  # of the bootstrap: each puts all detections in order again
_BITS = len(THRESHOLDS)
_AT_75 = int(np.argmin(np.abs(THRESHOLDS - 0.75)))


class ObjectRows(Sums):
    """The part of an accumulator that keeps detections and counts objects."""

    scores: Tensor  # (detections, 1)
    found: Tensor  # (detections, 2 + kinds x areas): image, class, bits: right, and above them ignored
    there: Tensor  # (rows, 2 + areas): image, class, objects that count
    weight: Tensor  # (1 + replicates,) of all images
    masks: Tensor  # objects that have one
    bare: Tensor  # detections that have none

    _areas: tuple[str, ...]

    def add_objects(self, areas: Sequence[str]) -> None:
        """Rows for these ranges of sizes."""
        self._areas = tuple(areas)
        self.add_rows("scores", 1)
        self.add_rows("found", 2 + len(KINDS) * len(areas), torch.int32)
        self.add_rows("there", 2 + len(areas), torch.int32)
        self.add_sum("weight", (1 + REPLICATES,))
        self.add_counts("masks", "bare")

    def take_objects(
        self, output: Any, indices: Tensor, data: TaskData, size: tuple[int, int], seed: int
    ) -> list[Found]:
        """Take in what was found in images of `size` at these places; gives it, and what is there, back."""
        places = indices.tolist()
        images = [
            compared(found, data.target(place), size, data.size(place))
            for found, place in zip(found_in(output, len(places)), places, strict=True)
        ]
        labels = [one["category_id"] for image in images for one in (*image.found, *image.there)]
        classes = 1 + max(labels, default=0)
        bare = sum("segmentation" not in one for image in images for one in image.found)
        masks = sum("segmentation" in one for image in images for one in image.there)
        # in images without objects, too: what is found there counts or not by its size
        compare_masks = not bare and all("segmentation" in o for i in images for o in i.there)
        boxes = matched(images, classes, "bbox", self._areas, places)
        outlines = matched(images, classes, "segm", self._areas, places) if compare_masks else None
        flags = [_packed(boxes), _packed(boxes) * 0 if outlines is None else _packed(outlines)]
        about = np.stack([boxes.places, boxes.classes], 1)
        rows = np.concatenate([about, *flags], 1)
        for name, new in (("scores", boxes.scores[:, None]), ("found", rows), ("there", boxes.there)):
            own = getattr(self, name)
            setattr(self, name, torch.cat([own, torch.from_numpy(new).to(own.dtype)]))
        self.weight += torch.from_numpy(poisson_weights(np.asarray(places), seed, REPLICATES).sum(0))
        self.masks += masks
        self.bare += bare
        return images

    def measured(self, seed: int, classes: int) -> "Measured":
        """All rows as `Measured`, from which average precision follows."""
        kinds = KINDS if int(self.masks) and not int(self.bare) else KINDS[:1]
        numbers = {name: getattr(self, name).numpy() for name in ("scores", "found", "there", "weight")}
        return Measured(numbers, len(self._areas), kinds, seed, classes)


@dataclass(frozen=True)
class Measured:
    """Detections and objects of all images, with the weights of a bootstrap over images."""

    numbers: Mapping[str, np.ndarray]  # see `ObjectRows`
    n_areas: int
    kinds: tuple[Kind, ...]
    seed: int
    least: int  # classes

    @cached_property
    def images(self) -> np.ndarray:
        """The places of images with detections or objects, ascending."""
        return np.unique(np.concatenate([self.numbers["found"][:, 0], self.numbers["there"][:, 0]]))

    @cached_property
    def weights(self) -> np.ndarray:
        """(images, 1 + replicates)."""
        return poisson_weights(self.images, self.seed, REPLICATES)

    @cached_property
    def classes(self) -> int:
        """How many there are, as far as data and detections tell."""
        labels = np.concatenate([self.numbers["found"][:, 1], self.numbers["there"][:, 1]])
        return max(self.least, 1 + int(labels.max(initial=-1)))

    def of(self, kind: Kind) -> Matched:
        """Detections and objects, in the order of the images, which are counted from 0."""
        found, there, scores = (self.numbers[name] for name in ("found", "there", "scores"))
        order = np.argsort(found[:, 0], kind="stable")
        start = 2 + KINDS.index(kind) * self.n_areas
        flags = found[order, start : start + self.n_areas]
        places = np.searchsorted(self.images, found[order, 0])
        objects = there[np.lexsort((there[:, 1], there[:, 0]))].astype(np.int64)
        objects[:, 0] = np.searchsorted(self.images, objects[:, 0])
        right, ignored = flags & ((1 << _BITS) - 1), flags >> _BITS
        return Matched(places, found[order, 1], scores[order, 0], right, ignored, objects)

    def images_with_objects(self, area: int = 0) -> int:
        """How many images have objects of this range of sizes: those that AP is known by."""
        there = self.numbers["there"]
        return len(np.unique(there[there[:, 2 + area] > 0, 0]))

    def precision(self, kind: Kind, area: int = 0) -> np.ndarray:
        """(1 + replicates, classes, thresholds): the mean over recalls."""
        return class_precision(self.of(kind), self.classes, self.weights, area)

    def average_precision(self, kind: Kind, area: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(1 + replicates,) each: AP, AP50, AP75."""
        return averages(self.precision(kind, area))


def averages(precision: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """AP, AP50 and AP75 of (1 + replicates, classes, thresholds)."""
    at = (precision, precision[..., :1], precision[..., _AT_75 : _AT_75 + 1])
    every, half, three_quarters = (mean_over_classes(part) for part in at)
    return every, half, three_quarters


def found_in(output: Any, n_images: int) -> list[dict[str, Tensor]]:
    """What a detector returned: a dict of boxes, labels, scores and perhaps masks for each image."""
    needed = {"boxes", "labels", "scores"}
    if not (
        isinstance(output, list | tuple)
        and len(output) == n_images
        and all(isinstance(one, Mapping) and needed <= set(one) for one in output)
    ):
        raise UnsupportedModel(
            f"the model returns a {type(output).__name__} for {n_images} images; expected a list with a dict of boxes, "
            "labels and scores for each, as maskrcnn:NAME gives"
        )
    return [dict(one) for one in output]


def _packed(found: Matched) -> np.ndarray:
    packed: np.ndarray = found.right | (found.ignored << _BITS)
    return packed
