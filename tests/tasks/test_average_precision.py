"""Average precision, and its replicates, against pycocotools' own sums."""

import contextlib
import io
from typing import Any

import numpy as np
import pytest
from pycocotools import mask as coding
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from vitscope.tasks.average_precision import Found, average_precision

SIZE = (40, 60)


def test_is_what_pycocotools_says(images: list[Found]) -> None:
    for kind in ("bbox", "segm"):
        found = average_precision(images, 3, np.ones((len(images), 1)), kind)  # type: ignore[arg-type]
        assert found[0] == pytest.approx(published(images, kind)[:2], abs=1e-12)
        assert 0.05 < found[0, 0] < 0.9


def test_an_image_drawn_twice_counts_twice(images: list[Found]) -> None:
    drawn = np.random.default_rng(1).integers(0, 3, len(images))
    repeated = [one for one, times in zip(images, drawn, strict=True) for _ in range(times)]
    found = average_precision(images, 3, np.stack([np.ones(len(images)), drawn], 1), "bbox")
    assert found[1] == pytest.approx(
        published(repeated, "bbox")[:2], abs=1e-6
    )  # equal scores come in another order
    assert found[1, 0] != found[0, 0]


def test_without_objects_there_is_no_precision() -> None:
    empty = [Found(0, SIZE, [], [])]
    assert np.isnan(average_precision(empty, 2, np.ones((1, 1)), "bbox")).all()


def test_nothing_found_is_a_precision_of_0(images: list[Found]) -> None:
    blind = [Found(one.image, one.size, [], one.there) for one in images]
    assert average_precision(blind, 3, np.ones((len(images), 1)), "bbox")[0].tolist() == [0.0, 0.0]


@pytest.fixture(scope="module")
def images() -> list[Found]:
    """Objects, and detections that are about where they are, some of a wrong class, some in nothing, with crowds."""
    draw = np.random.default_rng(0)
    made = []
    for image in range(30):
        there, found = [], []
        for _ in range(draw.integers(0, 5)):
            box = [*draw.uniform(0, 20, 2), *draw.uniform(6, 18, 2)]
            label = int(draw.integers(0, 3))
            crowd = int(draw.random() < 0.1)
            there.append(
                {"category_id": label, "bbox": box, "area": box[2] * box[3], "iscrowd": crowd, **_mask(box)}
            )
            if draw.random() < 0.8:
                near = [side + draw.normal(0, 1.2) for side in box]
                said = label if draw.random() < 0.85 else (label + 1) % 3
                found.append(
                    {
                        "category_id": said,
                        "score": draw.random(),
                        "bbox": near,
                        "area": near[2] * near[3],
                        **_mask(near),
                    }
                )
        for _ in range(draw.integers(0, 2)):
            box = [*draw.uniform(0, 20, 2), *draw.uniform(6, 18, 2)]
            found.append(
                {
                    "category_id": 0,
                    "score": draw.random() * 0.6,
                    "bbox": box,
                    "area": box[2] * box[3],
                    **_mask(box),
                }
            )
        made.append(Found(image, SIZE, found, there))
    return made


def published(images: list[Found], kind: str) -> np.ndarray:
    """AP, AP50, AP75, AP of small, medium and large objects by pycocotools from beginning to end."""
    with contextlib.redirect_stdout(io.StringIO()):
        pictures = [{"id": i, "height": one.size[0], "width": one.size[1]} for i, one in enumerate(images)]
        truth = COCO()
        rows = [{**o, "image_id": i} for i, one in enumerate(images) for o in one.there]
        truth.dataset = {
            "images": pictures,
            "categories": [{"id": n} for n in range(3)],
            "annotations": [{**row, "id": number} for number, row in enumerate(rows, 1)],
            "info": {},
        }
        truth.createIndex()
        said: list[dict[str, Any]] = [
            {key: value for key, value in {**o, "image_id": i}.items() if key != "area"}
            for i, one in enumerate(images)
            for o in one.found
        ]
        other = "segmentation" if kind == "bbox" else "bbox"  # as files of results have one of them
        said = [{key: value for key, value in one.items() if key != other} for one in said]
        evaluation = COCOeval(truth, truth.loadRes(said), kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return np.where(evaluation.stats[:6] < 0, np.nan, evaluation.stats[:6])  # -1: there is no such object


def _mask(box: list[float]) -> dict[str, Any]:
    plane = np.zeros(SIZE, np.uint8)
    x, y, width, height = (max(0, round(side)) for side in box)
    plane[y : y + height, x : x + width] = 1
    return {"segmentation": coding.encode(np.asfortranarray(plane))}
