"""Detection as a task: augmentation of objects, detections in pixels of the picture, a training from end to end."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from vitscope.core.errors import VitscopeError
from vitscope.data import DataConfig
from vitscope.data.task_data import Objects
from vitscope.recipes.named import get_recipe
from vitscope.recipes.seeding import random_state_preserved, seed_all
from vitscope.tasks.detection import Detection, compared
from vitscope.tasks.objects import ObjectsExample

CONFIG = DataConfig(
    (3, 32, 32), mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25), crop_pct=1.0, crop_mode="squash"
)


def picture_of(
    boxes: list[tuple[int, int, int, int]], size: tuple[int, int] = (40, 60)
) -> tuple[Image.Image, Objects]:
    """White boxes on black, each an object of its own class."""
    masks = np.zeros((len(boxes), *size), np.uint8)
    for mask, (left, top, right, bottom) in zip(masks, boxes, strict=True):
        mask[top:bottom, left:right] = 1
    pixels = np.repeat((masks.max(0, initial=0) * 255)[..., None], 3, 2).astype(np.uint8)
    areas = masks.sum((1, 2)).astype(np.float32)
    crowd = np.zeros(len(boxes), bool)
    array = np.array(boxes, np.float32).reshape(-1, 4)
    return Image.fromarray(pixels), Objects(array, np.arange(len(boxes)), masks, crowd, areas, 7)


@pytest.mark.parametrize("crop", ["auto", "resized"])
def test_boxes_and_masks_stay_on_their_objects(crop: str) -> None:
    picture, objects = picture_of([(4, 6, 20, 18), (30, 20, 56, 36)])
    example = ObjectsExample(get_recipe("dense", colour_jitter=0.0, crop=crop), CONFIG)
    places = set()
    with random_state_preserved():
        for draw in range(20):
            seed_all(draw)
            image, target = example(picture, objects)
            assert image.shape == (3, 32, 32)
            assert len(target["boxes"]) == len(target["labels"]) == len(target["masks"])
            for box, mask in zip(target["boxes"], target["masks"], strict=True):
                left, top, right, bottom = (round(float(side)) for side in box)
                inside = torch.zeros(32, 32, dtype=torch.bool)
                inside[top:bottom, left:right] = True
                agree = (inside & (mask == 1)).sum() / (inside | (mask == 1)).sum()
                assert float(agree) > 0.8
                assert float((image[0] > 0)[mask == 1].float().mean()) > 0.85
                places.add((left, top))
    assert len(places) > (10 if crop == "resized" else 3)


def test_crowds_are_not_learned() -> None:
    picture, objects = picture_of([(4, 6, 20, 18), (30, 20, 56, 36)])
    objects.crowd[0] = True
    _, target = ObjectsExample(get_recipe("dense"), CONFIG)(picture, objects)
    assert target["labels"].tolist() == [1]


def test_a_picture_without_objects() -> None:
    picture, objects = picture_of([])
    for crop in ("auto", "resized"):
        _, target = ObjectsExample(get_recipe("dense", crop=crop), CONFIG)(picture, objects)
        assert target["boxes"].shape == (0, 4)
        assert target["masks"].shape == (0, 32, 32)


def test_what_is_found_exactly_is_found_in_pixels_of_the_picture() -> None:
    picture, objects = picture_of([(4, 6, 20, 18), (30, 20, 56, 36)])
    scale = torch.tensor([32 / 60, 32 / 40] * 2)
    masks = torch.from_numpy(objects.masks).float()  # type: ignore[arg-type]
    found = {
        "boxes": torch.from_numpy(objects.boxes) * scale,
        "labels": torch.tensor([0, 1]),
        "scores": torch.tensor([0.9, 0.8]),
        "masks": torch.nn.functional.interpolate(masks[:, None], size=(32, 32))[:, 0],
    }
    one = compared(found, objects, (32, 32), (picture.height, picture.width))
    assert one.found[0]["bbox"] == pytest.approx([4, 6, 16, 12], abs=1e-4)
    row = Detection().scores([[asdict(one)]])
    assert row["box_ap"] == pytest.approx(1.0)
    assert row["mask_ap50"] == pytest.approx(1.0)
    assert row["mask_ap"] > 0.5


def test_a_classifier_is_refused() -> None:
    net: Any = torch.nn.Linear(2, 2)
    with pytest.raises(VitscopeError, match="finds no objects; give a backbone by name"):
        Detection().outputs(net, CONFIG, torch.device("cpu"))
