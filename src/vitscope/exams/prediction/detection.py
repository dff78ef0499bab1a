"""How well objects are found, and whether the scores of boxes can be believed.

    AP, AP50, AP75, AP of small, medium and large objects     as COCO defines them, of boxes and of masks
                                                              (`tasks/average_precision.py`)

A box is right if pycocotools matches it with an object of its class at an IoU of at least 0.5; of several on one object
the one with the highest score is. With boxes whose score is at least s (0.5):

    precision = right boxes / boxes            recall = objects that have one / objects

Of all boxes, in 15 bins of their scores:  ece = sum over bins of |sum (score - right)| / boxes. Boxes on crowds do not
count. Intervals are over images, by a bootstrap that draws whole images, with all of their boxes and objects. AP is no
sum over images: what is kept grows with the number of boxes (`engine/object_scores.py`).
"""

from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vitscope.core.arguments import Share
from vitscope.core.bootstrap import biased_intervals, of_few, standard_error
from vitscope.core.statistics import Estimate, difference_interval
from vitscope.engine.exam import Batch, Subject
from vitscope.engine.object_scores import KINDS, Measured, ObjectRows, averages
from vitscope.engine.scores import error_interval, least_error
from vitscope.engine.shown_images import ShowsImages
from vitscope.engine.single_exam import single_exam
from vitscope.findings.detection import (
    CLASS_QUANTITIES,
    QUANTITIES,
    SIZES,
    ByteArray,
    DetectionResult,
    ShownObjects,
)
from vitscope.results.condition_rows import BINS
from vitscope.tasks.average_precision import AREAS, Found, matched

SIDE = 160  # of images that are kept to be shown, at most
BOXES = 10  # of each of them
SCORE = 0.5


class DetectionAccumulator(ObjectRows, ShowsImages):
    """Every detection in a few whole numbers, and objects counted by image and class."""

    result = DetectionResult
    task = "detection"
    evaluation = True
    score: ClassVar[float] = SCORE
    OPTIONS = MappingProxyType({"score": Share})

    n: Tensor
    boxes: Tensor  # (few, BOXES, 7): left, top, right, bottom, class, score, right
    counts: Tensor  # (few,) boxes that there are
    masks_shown: Tensor  # (few, SIDE, SIDE) number of the box whose mask it is

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self.add_objects(tuple(AREAS))
        self.add_counts("n")
        self.add_kept("boxes", (BOXES, 7), torch.float64)
        self.add_kept("counts")
        self.add_kept("masks_shown", (SIDE, SIDE), torch.int32)

    def update(self, batch: Batch) -> None:
        """Take in what was found in one batch of images."""
        assert batch.images is not None
        assert self.subject.pictures is not None
        _, _, height, width = batch.images.shape
        images = self.take_objects(
            batch.output, batch.indices, self.subject.pictures, (height, width), self.subject.seed
        )
        for index, image in zip(batch.indices.tolist(), images, strict=True):
            self._show(index, image)
        self.n += len(images)

    def _show(self, index: int, image: Found) -> None:
        """Keep the boxes with the highest scores if the image is one of the few."""
        slot = self.slot_for(index)
        if slot is None:
            return
        # as pycocotools has them: by class, then by score
        found = sorted(image.found, key=lambda one: (one["category_id"], -one["score"]))
        right, _ = matched([image], 1 + max((o["category_id"] for o in found), default=0), "bbox", ("",)).at()
        best = sorted(range(len(found)), key=lambda i: -found[i]["score"])[:BOXES]
        tall, wide, scale = _small(image.size)
        for row, i in enumerate(best):
            x, y, width, height = found[i]["bbox"]
            corners = [scale * side for side in (x, y, x + width, y + height)]
            about = [found[i]["category_id"], found[i]["score"], float(right[i])]
            self.boxes[slot, row] = torch.tensor([*corners, *about], dtype=torch.float64)
        for row in reversed(range(len(best))):
            if "segmentation" in found[best[row]]:
                inside = _shrunk(_decoded(found[best[row]]["segmentation"]), tall, wide)
                self.masks_shown[slot, :tall, :wide][torch.from_numpy(inside)] = row + 1
        self.counts[slot] = len(best)

    def compute(self) -> dict[str, Any]:
        """Every quantity with its interval, the reliability diagram, the classes, and the images to show."""
        pictures, n = self.subject.pictures, int(self.n)
        assert pictures is not None
        objects = self.measured(self.subject.seed, len(pictures.classes))
        precisions = {kind: objects.precision(kind) for kind in objects.kinds}
        found = _by_kind(objects, precisions)
        at_score, images = _counted(objects, self.score)
        calibration, in_bins = _binned(objects)
        right, said, there = (total.sum(1) for total in np.moveaxis(at_score, -1, 0))
        gaps, count, hits = np.split(calibration, 3, axis=1)
        weight = self.weight.numpy()
        with np.errstate(invalid="ignore", divide="ignore"):
            boxes = count.sum(1)
            found |= {
                "precision": right / said,
                "recall": right / there,
                "confidence": (gaps.sum(1) + hits.sum(1)) / boxes,
                "ece": np.abs(gaps).sum(1) / boxes,
                "signed_ece": gaps.sum(1) / boxes,
                "boxes_per_image": said / weight,
                "objects_per_image": there / weight,
            }
            bin_accuracy, bin_confidence = hits / count, (gaps + hits)[0] / count[0]
            shares = gaps / boxes[:, None]
        none = np.full(len(weight), np.nan)
        drawn = np.column_stack([found.get(quantity, none) for quantity in QUANTITIES])
        most = [np.inf if quantity.endswith("per_image") else 1.0 for quantity in QUANTITIES]
        low, high = biased_intervals(drawn, _images_by_quantity(objects, images, n), most)
        signed = found["signed_ece"]
        special = {
            "signed_ece": difference_interval(signed[0], of_few(standard_error(signed[1:]), n), n),
            "ece": error_interval(shares[:, None], least_error(count[0], hits[0], n)[None]),
        }
        for name, ends in special.items():
            low[QUANTITIES.index(name)], high[QUANTITIES.index(name)] = ends
        return {
            "n": n,
            "score": float(self.score),
            "detections": int(boxes[0]),
            "objects": int(there[0]),
            "value": drawn[0],
            "low": low,
            "high": high,
            "drawn": drawn[1:],
            "bin_count": count[0].astype(np.int64),
            "bin_confidence": bin_confidence,
            "bin_accuracy": Estimate(bin_accuracy[0], *biased_intervals(bin_accuracy, in_bins)),
            **_class_fields(precisions, at_score, images, pictures.classes),
            "shown": tuple(self._shown(slot) for slot in self.slots),
        }

    def _shown(self, slot: int) -> ShownObjects:
        """Picture and truth are the data's; what was found is what was kept."""
        pictures, place = self.subject.pictures, int(self.places[slot])
        assert pictures is not None
        objects = pictures.target(place)
        tall, wide, scale = _small(pictures.size(place))
        picture = pictures.picture(place).resize((wide, tall), Image.Resampling.BOX)
        outlines = np.zeros((2, tall, wide), np.uint8)
        for k, mask in enumerate(() if objects.masks is None else objects.masks[:255]):
            outlines[0][_shrunk(mask > 0, tall, wide)] = k + 1
        outlines[1] = self.masks_shown[slot, :tall, :wide].numpy()
        there = np.column_stack([scale * objects.boxes.astype(np.float64), objects.labels])
        found = self.boxes[slot, : int(self.counts[slot])].numpy().copy()
        return ShownObjects(place, ByteArray.of(np.asarray(picture)), there, found, ByteArray.of(outlines))


def _by_kind(objects: Measured, precisions: dict[Any, np.ndarray]) -> dict[str, np.ndarray]:
    """AP, AP50, AP75 and AP by size, of boxes and masks as far as there are some: (1 + replicates,) each."""
    found: dict[str, np.ndarray] = {}
    for kind, precision in precisions.items():
        name = ("box", "mask")[KINDS.index(kind)]
        found |= dict(zip((f"{name}_ap", f"{name}_ap50", f"{name}_ap75"), averages(precision), strict=True))
        for area, size in enumerate(SIZES, 1):
            found[f"{name}_ap_{size}"] = objects.average_precision(kind, area)[0]
    return found


def _images_by_quantity(objects: Measured, images: np.ndarray, n: int) -> list[int]:
    """How many images say something of each quantity: those with objects, or with boxes."""
    _, boxes, there = images.any(1).sum(0).tolist()
    sizes = {f"ap_{size}": objects.images_with_objects(area) for area, size in enumerate(SIZES, 1)}
    known = {"precision": boxes, "recall": there}

    def of(quantity: str) -> int:
        what = quantity.split("_", 1)[-1]
        return int(sizes.get(what, known.get(what, there if what.startswith("ap") else n)))

    return [of(quantity) for quantity in QUANTITIES]


def _counted(objects: Measured, score: float) -> tuple[np.ndarray, np.ndarray]:
    """Right boxes and all boxes of at least this score, and objects, of (1 + replicates, classes, 3).

    With them (images, classes, 3) bool: which images have any.
    """
    boxes = objects.of("bbox")
    right, counted = boxes.at()
    chosen = counted & (boxes.scores >= score)
    table = np.zeros((len(objects.images), objects.classes, 3))
    for column, rows in enumerate((right & chosen, chosen)):
        np.add.at(table, (boxes.places[rows], boxes.classes[rows], column), 1)
    table[boxes.there[:, 0], boxes.there[:, 1], 2] = boxes.there[:, 2]
    return np.einsum("icq,ir->rcq", table, objects.weights), table > 0


def _binned(objects: Measured) -> tuple[np.ndarray, np.ndarray]:
    """(1 + replicates, 3 x bins): summed score minus right, boxes, and right ones, in each bin (lo, hi] of scores.

    With them (bins,): images that have boxes in it.
    """
    boxes = objects.of("bbox")
    right, counted = boxes.at()
    bins = np.searchsorted(np.arange(1, BINS) / BINS, boxes.scores, side="left")
    table = np.zeros((len(objects.images), 3 * BINS))
    for column, numbers in enumerate((boxes.scores - right, np.ones(len(right)), right.astype(float))):
        np.add.at(table, (boxes.places[counted], column * BINS + bins[counted]), numbers[counted])
    return objects.weights.T @ table, (table[:, BINS : 2 * BINS] > 0).sum(0)


def _class_fields(
    precisions: dict[Any, np.ndarray], at_score: np.ndarray, images: np.ndarray, known: tuple[str, ...]
) -> dict[str, Any]:
    right, said, there = np.moveaxis(at_score, -1, 0)
    none = np.full_like(right, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        by_class = {
            "box_ap": precisions["bbox"].mean(2),
            "box_ap50": precisions["bbox"][..., 0],
            "mask_ap": precisions["segm"].mean(2) if "segm" in precisions else none,
            "precision": right / said,
            "recall": right / there,
        }
    drawn = np.stack([by_class[quantity] for quantity in CLASS_QUANTITIES], -1)
    _, boxes, objects = images.sum(0).T
    counted = np.stack([boxes if quantity == "precision" else objects for quantity in CLASS_QUANTITIES], -1)
    return {
        "class_names": tuple(known[k] if k < len(known) else str(k) for k in range(right.shape[1])),
        "class_objects": there[0].astype(np.int64),
        "class_found": said[0].astype(np.int64),
        "by_class": Estimate(drawn[0], *biased_intervals(drawn, counted)),
    }


def _small(size: tuple[int, int]) -> tuple[int, int, float]:
    """Height and width at which a picture is shown, and how much smaller that is."""
    scale = min(1.0, SIDE / max(size))
    tall, wide = (max(1, round(scale * side)) for side in size)
    return tall, wide, scale


def _shrunk(mask: np.ndarray, tall: int, wide: int) -> np.ndarray:
    y, x = (np.arange(small) * side // small for small, side in zip((tall, wide), mask.shape, strict=True))
    return np.asarray(mask[y][:, x], dtype=bool)


def _decoded(mask: dict[str, Any]) -> np.ndarray:
    from pycocotools import mask as coding

    return np.asarray(coding.decode(mask), dtype=bool)


detection = single_exam(
    DetectionAccumulator,
    "which objects of `data` are found by `model`",
    score="Precision, recall and number of boxes are those of boxes with at least this score.",
)
