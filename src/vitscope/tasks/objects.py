"""A picture and its objects, augmented together: the whole picture at the model's size, mirrored, colours changed.

"resized" takes a random part of the picture first, with at least half of its sides; of objects that lie partly outside
what is left is kept, if it is a quarter of the object or more.
"""

from typing import Any

import numpy as np
import torch
from timm.data.transforms import str_to_interp_mode
from torch import Tensor
from torchvision import transforms
from torchvision.transforms import functional as F

from vitscope.data import DataConfig
from vitscope.data.task_data import Objects
from vitscope.recipes.recipe import Recipe

LEAST_SIDE = 0.5
LEAST_SHARE = 0.25


class ObjectsExample:
    """Picture and objects in; a normalised image (C, H, W) and a dict of boxes, labels and masks out."""

    def __init__(self, recipe: Recipe, config: DataConfig) -> None:
        self.size = config.input_size[1:]
        self.flip = recipe.flip
        self.cuts = recipe.crop == "resized"
        self.filter = str_to_interp_mode(config.interpolation)
        change = recipe.colour_jitter
        self.colours = transforms.ColorJitter(change, change, change) if change else None
        self.finish = transforms.Compose(
            [transforms.ToTensor(), transforms.Normalize(config.mean, config.std)]
        )
        self.grey = config.input_size[0] == 1

    def __call__(self, picture: Any, objects: Objects) -> tuple[Tensor, dict[str, Tensor]]:
        """Draws from torch's generator; crowds are left out."""
        picture = picture.convert("RGB")
        counted = ~objects.crowd
        boxes, labels = objects.boxes[counted].astype(np.float64), objects.labels[counted]
        masks = None if objects.masks is None else objects.masks[counted]
        if self.cuts:
            picture, boxes, masks, kept = _part(picture, boxes, masks)
            labels = labels[kept]
        height, width = self.size
        boxes = boxes * np.array([width / picture.width, height / picture.height] * 2)
        picture = F.resize(picture, [height, width], interpolation=self.filter)
        target = {"boxes": torch.from_numpy(boxes).float(), "labels": torch.from_numpy(labels)}
        if masks is not None:
            nearest = transforms.InterpolationMode.NEAREST_EXACT
            planes = torch.from_numpy(np.ascontiguousarray(masks))
            target["masks"] = (
                F.resize(planes, [height, width], interpolation=nearest)
                if len(planes)
                else planes.new_zeros((0, height, width))
            )
        if self.flip and torch.rand(()) < self.flip:
            picture = F.hflip(picture)
            target["boxes"] = torch.stack(
                [
                    width - target["boxes"][:, 2],
                    target["boxes"][:, 1],
                    width - target["boxes"][:, 0],
                    target["boxes"][:, 3],
                ],
                1,
            )
            if masks is not None:
                target["masks"] = F.hflip(target["masks"])
        if self.colours is not None:
            picture = self.colours(picture)
        if self.grey:
            picture = F.to_grayscale(picture)
        return self.finish(picture), target


def _part(
    picture: Any, boxes: np.ndarray, masks: np.ndarray | None
) -> tuple[Any, np.ndarray, np.ndarray | None, np.ndarray]:
    """A random part of a picture with the objects in it, and which of them are kept."""
    sides = [
        max(1, int(side * float(torch.empty(()).uniform_(LEAST_SIDE, 1.0))))
        for side in (picture.height, picture.width)
    ]
    top, left = (
        int(torch.randint(there - side + 1, ()))
        for there, side in zip((picture.height, picture.width), sides, strict=True)
    )
    height, width = sides
    moved = boxes - np.array([left, top] * 2)
    clipped = np.stack([moved[:, 0::2].clip(0, width), moved[:, 1::2].clip(0, height)], 2).reshape(-1, 4)
    kept = _areas(clipped) >= LEAST_SHARE * _areas(boxes)
    kept &= (clipped[:, 2:] - clipped[:, :2] >= 1).all(1)
    if masks is not None:
        masks = masks[kept, top : top + height, left : left + width]
    return F.crop(picture, top, left, height, width), clipped[kept], masks, kept


def _areas(boxes: np.ndarray) -> np.ndarray:
    found: np.ndarray = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return found
