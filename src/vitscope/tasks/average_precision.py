"""Average precision of boxes and masks as COCO defines it, and what of it is chance.

pycocotools says which detections of an image match which objects (`matched`). The precision of every class and IoU
threshold is then summed up here, as it does, for the images as they are and for bootstrap replicates of them: an image
that a replicate has drawn twice counts twice.

    AP = mean over classes and the IoU thresholds 0.50, 0.55 .. 0.95 of the precision at the recalls 0, 0.01 .. 1,
    where the precision at a recall is the best one at that recall or beyond

What AP is made of are detections, in the order of their scores: it is no sum over images. A detection takes a few whole
numbers here, for each kind and range of sizes one that says by its bits at which thresholds it is right, and one at
which it does not count.
"""

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vitscope.core.errors import VitscopeError

THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0.0, 1.0, 101)
MOST = 100  # detections of an image that count
Kind = Literal["bbox", "segm"]
# by size of the object, in pixels of its picture
AREAS = {"": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}
_BITS = 1 << np.arange(len(THRESHOLDS))


@dataclass(frozen=True)
class Found:
    """What was found in one image, and what is there; in pixels of the picture.

    `found` holds category, score, box (x, y, width, height) and perhaps a compressed mask of each; `there` the same
    without a score, with area and crowd.
    """

    image: int
    size: tuple[int, int]  # height, width
    found: Sequence[dict[str, Any]]
    there: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Matched:
    """What is known of detections, in any order of images, and of objects; whole numbers but for the scores."""

    places: np.ndarray  # (detections,) of their images
    classes: np.ndarray  # (detections,)
    scores: np.ndarray  # (detections,)
    right: np.ndarray  # (detections, areas): bit t: it matches an object at threshold t
    ignored: np.ndarray  # (detections, areas): bit t: it counts neither as right nor as wrong
    there: np.ndarray  # (rows, 2 + areas): image, class, and how many of its objects count

    def at(self, threshold: int = 0, area: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """(detections,) of bools: which are right at a threshold, and which count."""
        right, ignored = (
            (flags[:, area] >> threshold & 1).astype(bool) for flags in (self.right, self.ignored)
        )
        return right & ~ignored, ~ignored


def average_precision(images: Sequence[Found], classes: int, weights: np.ndarray, kind: Kind) -> np.ndarray:
    """(replicates, 2): AP and AP at an IoU of 0.5; `weights` (images, replicates) say how often an image counts.

    NaN where a replicate has no object of any class.
    """
    found = class_precision(matched(images, classes, kind, ("",)), classes, weights)
    return np.stack([mean_over_classes(found), mean_over_classes(found[..., :1])], 1)


def mean_over_classes(precision: np.ndarray) -> np.ndarray:
    """(replicates,) of (replicates, classes, thresholds): over those classes that have objects; NaN if none has."""
    known = ~np.isnan(precision[:, :, 0])
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = np.nan_to_num(precision.mean(2)).sum(1) / known.sum(1)
    return found


def class_precision(found: Matched, classes: int, weights: np.ndarray, area: int = 0) -> np.ndarray:
    """(replicates, classes, thresholds): the mean over recalls; NaN where a replicate has no object of a class.

    `weights` are (images, replicates); detections of equal score count in the order of their images.
    """
    every = np.full((weights.shape[1], classes, len(THRESHOLDS)), np.nan)
    ranked = np.lexsort((np.arange(len(found.scores)), found.places, -found.scores))
    for number in range(classes):
        rows = found.there[found.there[:, 1] == number]
        objects = rows[:, 2 + area] @ weights[rows[:, 0]]
        order = ranked[found.classes[ranked] == number]
        precision = _precision(found, order, weights, objects, area)
        every[:, number] = np.where(objects > 0, precision, np.nan).T
    return every


def _precision(
    found: Matched, order: np.ndarray, weights: np.ndarray, objects: np.ndarray, area: int
) -> np.ndarray:
    """(thresholds, replicates): the mean over recalls, of the detections of one class in this order."""
    replicates = weights.shape[1]
    every = np.zeros((len(THRESHOLDS), replicates))
    if not len(order):
        return every
    drawn = weights[found.places[order]]  # (detections, replicates)
    with np.errstate(invalid="ignore", divide="ignore"):
        for t in range(len(THRESHOLDS)):
            hits, counted = (flags[order] for flags in found.at(t, area))
            rows = np.flatnonzero(hits)  # between them precision falls and recall stays
            right = np.cumsum(drawn[rows], 0)
            said = np.cumsum(drawn * counted[:, None], 0)[rows]
            precision = right / (said + np.spacing(1))
            best = np.maximum.accumulate(precision[::-1], 0)[::-1]
            reached = np.searchsorted(RECALLS, right / objects, side="right")
            every[t] = (best * np.diff(reached, axis=0, prepend=0)).sum(0) / len(RECALLS)
    return every


def matched(
    images: Sequence[Found],
    classes: int,
    kind: Kind,
    areas: Sequence[str] = tuple(AREAS),
    places: Sequence[int] | None = None,
) -> Matched:
    """What pycocotools says of the detections in images, which stand at these `places` of the data."""
    numbers = np.arange(len(images)) if places is None else np.asarray(places)
    by_class: dict[tuple[int, int], dict[int, dict[str, Any]]] = {}
    for row in _evaluate(images, classes, kind, areas):
        at = next(k for k, area in enumerate(areas) if list(AREAS[area]) == list(row["aRng"]))
        by_class.setdefault((row["image_id"], row["category_id"]), {})[at] = row
    detections: list[tuple[np.ndarray, ...]] = [
        (np.zeros((0, 2), int), np.zeros(0), *[np.zeros((0, len(areas)), int)] * 2)
    ]
    there = [np.zeros((0, 2 + len(areas)), int)]
    for (image, number), rows in by_class.items():
        by_area = [rows[k] for k in range(len(areas))]
        scores = np.asarray(by_area[0]["dtScores"][:MOST], float)
        about = np.tile([numbers[image], number], (len(scores), 1))
        flags = [
            np.stack([_BITS @ (np.asarray(one[name])[:, :MOST] > 0) for one in by_area], 1)
            for name in ("dtMatches", "dtIgnore")
        ]
        detections.append((about, scores, *flags))
        counts = [int(np.sum(~np.asarray(one["gtIgnore"], bool))) for one in by_area]
        there.append(np.array([[numbers[image], number, *counts]]))
    about, scores, right, ignored = (np.concatenate(parts) for parts in zip(*detections, strict=True))
    return Matched(about[:, 0], about[:, 1], scores, right, ignored, np.concatenate(there))


def _evaluate(
    images: Sequence[Found], classes: int, kind: Kind, areas: Sequence[str]
) -> list[dict[str, Any]]:
    """What pycocotools says of each class in each image, for each range of sizes."""
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise VitscopeError(
            "average precision needs pycocotools; type: pip install 'vitscope[tasks]'"
        ) from error
    with contextlib.redirect_stdout(io.StringIO()):  # it tells of every step
        truth, said = COCO(), COCO()
        pictures = [
            {"id": place, "height": one.size[0], "width": one.size[1]} for place, one in enumerate(images)
        ]
        names = [{"id": number} for number in range(classes)]
        numbers = iter(range(1, 1 << 62))
        for coco, part in ((truth, "there"), (said, "found")):
            annotations = [
                {"iscrowd": 0, **one, **_size(one, kind, part), "id": next(numbers), "image_id": place}
                for place, image in enumerate(images)
                for one in getattr(image, part)
            ]
            coco.dataset = {"images": pictures, "categories": names, "annotations": annotations}
            coco.createIndex()
        evaluation = COCOeval(truth, said, kind)
        evaluation.params.areaRng = [list(AREAS[area]) for area in areas]
        evaluation.params.areaRngLbl = list(areas)
        evaluation.params.maxDets = [MOST]
        evaluation.evaluate()
    return [row for row in evaluation.evalImgs if row is not None]


def _size(one: dict[str, Any], kind: Kind, part: str) -> dict[str, float]:
    """What is found is as large as its mask where masks are compared; how large an object is says the data."""
    from pycocotools import mask as coding

    return {"area": float(coding.area(one["segmentation"]))} if (kind, part) == ("segm", "found") else {}
