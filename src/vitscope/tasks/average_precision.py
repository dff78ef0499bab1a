"""Average precision of boxes and masks as COCO defines it, and what of it is chance.

pycocotools says which detections of an image match which objects. The precision of every class and IoU threshold is
then summed up here, as it does, for the images as they are and for bootstrap replicates of them: an image that a
replicate has drawn twice counts twice.

    AP = mean over classes and the IoU thresholds 0.50, 0.55 .. 0.95 of the precision at the recalls 0, 0.01 .. 1,
    where the precision at a recall is the best one at that recall or beyond
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


def average_precision(images: Sequence[Found], classes: int, weights: np.ndarray, kind: Kind) -> np.ndarray:
    """(replicates, 2): AP and AP at an IoU of 0.5; `weights` (images, replicates) say how often an image counts.

    NaN where a replicate has no object of any class.
    """
    evaluation = _evaluate(images, classes, kind)
    replicates = weights.shape[1]
    total, total50, counted = (np.zeros(replicates) for _ in range(3))
    for number in range(classes):
        rows = evaluation[number]
        objects = np.zeros(replicates)
        for place, row in rows:
            objects += weights[place] * int(np.sum(~np.asarray(row["gtIgnore"], bool)))
        precision = _precision(rows, weights, objects)  # (thresholds, replicates)
        some = objects > 0
        total += np.where(some, precision.mean(0), 0.0)
        total50 += np.where(some, precision[0], 0.0)
        counted += some
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.stack([total / counted, total50 / counted], 1)


def _precision(
    rows: Sequence[tuple[int, dict[str, Any]]], weights: np.ndarray, objects: np.ndarray
) -> np.ndarray:
    """(thresholds, replicates): the mean over recalls, of one class."""
    replicates = weights.shape[1]
    found = np.zeros((len(THRESHOLDS), replicates))
    if not rows:
        return found
    scores = np.concatenate([row["dtScores"][:MOST] for _, row in rows])
    order = np.argsort(-scores, kind="mergesort")
    places = np.concatenate([np.full(len(row["dtScores"][:MOST]), place) for place, row in rows])[order]
    if not len(places):
        return found
    matched = np.concatenate([row["dtMatches"][:, :MOST] for _, row in rows], 1)[:, order] > 0
    ignored = np.concatenate([row["dtIgnore"][:, :MOST] for _, row in rows], 1)[:, order].astype(bool)
    drawn = weights[places]  # (detections, replicates)
    with np.errstate(invalid="ignore", divide="ignore"):
        for t in range(len(THRESHOLDS)):
            right = np.cumsum(drawn * (matched[t] & ~ignored[t])[:, None], 0)
            wrong = np.cumsum(drawn * (~matched[t] & ~ignored[t])[:, None], 0)
            precision = right / (right + wrong + np.spacing(1))
            best = np.maximum.accumulate(precision[::-1], 0)[::-1]
            recall = right / objects
            for r in range(replicates):
                if objects[r] > 0:
                    at = np.searchsorted(recall[:, r], RECALLS, side="left")
                    reached = at[at < len(best)]
                    found[t, r] = best[reached, r].sum() / len(RECALLS)
    return found


def _evaluate(
    images: Sequence[Found], classes: int, kind: Kind
) -> dict[int, list[tuple[int, dict[str, Any]]]]:
    """By class: the place of every image with what pycocotools says of it."""
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
                {"iscrowd": 0, **one, "id": next(numbers), "image_id": place}
                for place, image in enumerate(images)
                for one in getattr(image, part)
            ]
            coco.dataset = {"images": pictures, "categories": names, "annotations": annotations}
            coco.createIndex()
        evaluation = COCOeval(truth, said, kind)
        evaluation.params.areaRng, evaluation.params.areaRngLbl = [[0, 1e10]], ["all"]
        evaluation.params.maxDets = [MOST]
        evaluation.evaluate()
    found: dict[int, list[tuple[int, dict[str, Any]]]] = {number: [] for number in range(classes)}
    for row in evaluation.evalImgs:
        if row is not None:
            found[row["category_id"]].append((row["image_id"], row))
    return found
