"""Boxes, and masks, of the objects in a picture.

The loss of an image is the sum of the five losses of Mask R-CNN on it alone. Scores are COCO's average precision of
boxes and of masks, in pixels of the picture, with intervals of a bootstrap over images.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitscope.core.bootstrap import biased_intervals, poisson_weights
from vitscope.core.errors import BadData, NotFinite, VitscopeError, warn
from vitscope.core.interface import unwrap
from vitscope.data import DataConfig
from vitscope.data.task_data import Objects
from vitscope.models import name_of
from vitscope.recipes.augment import AugmentedData
from vitscope.recipes.named import get_recipe
from vitscope.recipes.recipe import Recipe
from vitscope.tasks.average_precision import Found, Kind, average_precision
from vitscope.tasks.objects import ObjectsExample
from vitscope.tasks.task import Draws, Measuring, Task, decoded, unhalved, whole_pictures

DECODER = "maskrcnn"
_REPLICATES = 200


class Detection(Task):
    """Objects with boxes and perhaps masks, by any backbone with a Mask R-CNN on its pyramid."""

    name = "detection"
    best = "box_ap"
    columns = tuple(
        f"{what}{end}"
        for what in ("box_ap", "box_ap50", "mask_ap", "mask_ap50")
        for end in ("", "_low", "_high")
    )
    batch_size = 8
    recipe = "dense"
    meaningless = ("auto_augment", "erase", "mixup", "cutmix", "label_smoothing")

    def model_name(self, name: str | os.PathLike[str]) -> str | os.PathLike[str]:
        """A backbone gets a Mask R-CNN."""
        return decoded(name, DECODER)

    def outputs(self, model: nn.Module, config: DataConfig, device: torch.device) -> int:
        """See `Task`."""
        if getattr(unwrap(model), "vitscope_task", None) != self.name:
            raise VitscopeError(
                f"{name_of(model)} finds no objects; give a backbone by name, which gets a Mask R-CNN, or "
                f"{DECODER}:NAME"
            )
        return int(model.num_classes)  # type: ignore[arg-type]

    def augmented(self, data: Any, recipe: Recipe, config: DataConfig, seed: int) -> AugmentedData:
        """See `Task`."""
        return AugmentedData(data, recipe, config, seed, ObjectsExample(recipe, config))

    def collate(
        self, examples: Sequence[tuple[Tensor, dict[str, Tensor]]]
    ) -> tuple[Tensor, list[dict[str, Tensor]]]:
        """See `Task`."""
        images, targets = zip(*examples, strict=True)
        return torch.stack(images), list(targets)

    def forward(self, running: nn.Module, inputs: Tensor, targets: Any, draws: Sequence[Draws]) -> Any:
        """The losses: which anchors and proposals they are made of is drawn per image."""
        return running(inputs, targets, draws)

    def losses(self, model: nn.Module, outputs: Any, targets: Any) -> Tensor:
        """See `Task`."""
        return unhalved(outputs)

    def check(self, targets: Sequence[dict[str, Tensor]], n_classes: int) -> None:
        """See `Task`."""
        largest = max((int(one["labels"].max()) for one in targets if len(one["labels"])), default=0)
        if largest >= n_classes:
            raise BadData(
                f"objects are of class {largest}, the model finds those of 0 to {n_classes - 1}; give a model that was "
                "trained on this data"
            )

    def plain(
        self, items: Sequence[tuple[Any, Any]], how: Measuring
    ) -> tuple[Tensor, list[dict[str, Tensor]]]:
        """Whole images at the model's size, with their objects in pixels of that; crowds are left out."""
        example = ObjectsExample(
            get_recipe(self.recipe, flip=0.0, colour_jitter=0.0, crop="auto"), how.config
        )
        _, targets = self.collate([example(*item) for item in items])
        there = [{key: value.to(how.device) for key, value in one.items()} for one in targets]
        return whole_pictures([picture for picture, _ in items], how), there

    def batch(
        self, items: Sequence[tuple[Any, Any]], how: Measuring
    ) -> tuple[Tensor, list[tuple[Objects, tuple[int, int]]]]:
        """Whole images at the model's size, with objects in pixels of the pictures and these pictures' sizes."""
        there = [(objects, (picture.height, picture.width)) for picture, objects in items]
        return whole_pictures([picture for picture, _ in items], how), there

    def sums(
        self, model: nn.Module, inputs: Tensor, targets: Sequence[tuple[Objects, tuple[int, int]]]
    ) -> list[Any]:
        """What was found in every image, and what is there."""
        size = tuple(inputs.shape[2:])
        return [
            asdict(compared(found, objects, size, picture))  # type: ignore[arg-type]
            for found, (objects, picture) in zip(model(inputs), targets, strict=True)
        ]

    def scores(self, sums: Iterable[list[Any]]) -> dict[str, float]:
        """See `Task`; there is no nll and no accuracy."""
        images = [Found(**one) for batch in sums for one in batch]
        classes = 1 + max((o["category_id"] for one in images for o in (*one.there, *one.found)), default=0)
        weights = poisson_weights(np.arange(len(images)), 0, _REPLICATES)
        masks = any("segmentation" in o for one in images for o in one.there) and all(
            "segmentation" in o for one in images for o in one.found
        )
        kinds: dict[str, Kind] = {"box": "bbox", **({"mask": "segm"} if masks else {})}
        row = dict.fromkeys(("nll", "accuracy", "low", "high", *self.columns), math.nan)
        row["n"] = float(len(images))
        with_objects = sum(any(not o.get("iscrowd") for o in one.there) for one in images)
        if not with_objects:
            warn(
                f"none of the {len(images)} held-out pictures has an object: there is no AP; hold out some that have"
            )
            return row
        for what, kind in kinds.items():
            found = average_precision(images, classes, weights, kind)
            for name, values in zip((f"{what}_ap", f"{what}_ap50"), found.T, strict=True):
                low, high = biased_intervals(values, with_objects)
                row |= {name: float(values[0]), f"{name}_low": float(low), f"{name}_high": float(high)}
        return row

    def words(self, row: dict[str, Any]) -> str:
        """See `Task`."""
        if math.isnan(row["box_ap"]):
            return ""
        said = (
            f"box AP {row['box_ap']:.1%} (95 % interval {row['box_ap_low']:.1%} to {row['box_ap_high']:.1%})"
        )
        if not math.isnan(row["mask_ap"]):
            ends = f"{row['mask_ap_low']:.1%} to {row['mask_ap_high']:.1%}"
            said += f", mask AP {row['mask_ap']:.1%} ({ends})"
        return said


def compared(
    found: dict[str, Tensor], there: Objects, size: tuple[int, int], picture: tuple[int, int]
) -> Found:
    """Detections in images of `size` and objects in a picture, both in the picture's pixels as COCO writes them."""
    scale = np.array([picture[1] / size[1], picture[0] / size[0]] * 2)
    boxes = found["boxes"].double().cpu().numpy() * scale
    if not (np.isfinite(boxes).all() and bool(found["scores"].isfinite().all())):
        raise NotFinite(
            "the model gives boxes or scores that are NaN or infinite; expected numbers: look at its weights, and at "
            "how it was trained"
        )
    masks = _at_size(found["masks"], picture) if "masks" in found and there.masks is not None else None
    said = [
        {
            "category_id": int(label),
            "score": float(score),
            "bbox": _box(box),
            "area": float((box[2] - box[0]) * (box[3] - box[1])),
            **({} if masks is None else {"segmentation": _encoded(masks[i])}),
        }
        for i, (label, score, box) in enumerate(zip(found["labels"], found["scores"], boxes, strict=True))
    ]
    objects = [
        {
            "category_id": int(there.labels[i]),
            "bbox": _box(there.boxes[i].astype(np.float64)),
            "area": float(there.areas[i]),
            "iscrowd": int(there.crowd[i]),
            **({} if there.masks is None else {"segmentation": _encoded(there.masks[i])}),
        }
        for i in range(len(there))
    ]
    return Found(there.image_id, picture, said, objects)


def _box(box: np.ndarray) -> list[float]:
    return [float(box[0]), float(box[1]), float(box[2] - box[0]), float(box[3] - box[1])]


def _at_size(masks: Tensor, picture: tuple[int, int]) -> np.ndarray:
    """(K, H, W) bool of probabilities (K, h, w)."""
    if not len(masks):
        return np.zeros((0, *picture), bool)
    larger = F.interpolate(masks[:, None].float(), size=picture, mode="bilinear", align_corners=False)
    found: np.ndarray = (larger[:, 0] > 0.5).cpu().numpy()
    return found


def _encoded(mask: np.ndarray) -> dict[str, Any]:
    from pycocotools import mask as coding

    found = coding.encode(np.asfortranarray(mask.astype(np.uint8)))
    return {"size": found["size"], "counts": found["counts"].decode()}
