"""Images in the place of those that are not on this machine: as many, of the same size and kind, and of no content.

They show that a model can be built, fed and trained, and how long that takes, before a hundred gigabytes are fetched.
"""

import io
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data import ImageData
from vitscope.data.catalog import CATALOG
from vitscope.data.labels import REAL
from vitscope.models.create import check_name
from vitscope.models.errors import UnknownModel
from vitscope.studies.design import VALIDATION
from vitscope.studies.images import Part
from vitscope.studies.resolve import OpenedImages
from vitscope.studies.scales import PublishedData, Scale
from vitscope.studies.study import Study
from vitscope.studies.task_stand_ins import SIZE, task_stand_in

_PHOTO = (375, 500)  # height and width of an average picture of ImageNet
_SIDE = 32


class StandIns(OpenedImages):
    """Opens images as a study does; where they are not there, and it is known how many they are, stand-ins.

    Attributes:
        lacking: What is not there of the images that were opened since this was emptied, and what to do about it.
    """

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self._scale = scale
        self._lacking: dict[Part, dict[str, str]] = {}
        self.lacking: dict[str, str] = {}

    def open(self, part: Part) -> ImageData:
        """The images of a part, or stand-ins."""
        if part not in self._opened:
            try:
                self._opened[part] = part.load()
            except BadData as error:
                self._lacking[part] = self._wanted(part, error)
                self._opened[part] = stand_in(part, self._published(part, error))
        self.lacking |= self._lacking.get(part, {})
        return self._opened[part]

    def identity(self, part: Part) -> str:
        """As of a study's images; stand-ins are known by the name of what they stand for."""
        self.open(part)
        return f"{part.data}, not there" if part in self._lacking else super().identity(part)

    def _published(self, part: Part, error: BadData) -> PublishedData:
        """What is known of images that are not there; raises the error if nothing is."""
        entry = CATALOG.get(part.data)
        if part.split == VALIDATION or (entry is None and part.data not in self._scale.data):
            raise error
        if entry is None:
            return self._scale.data[part.data]
        return PublishedData(len(entry.classes), entry.test, entry.train, task=entry.task)  # type: ignore[arg-type]

    def _wanted(self, part: Part, error: BadData) -> dict[str, str]:
        """What has to be fetched for a part; raises the error if that is not what is wrong."""
        wanted = {}
        labels = part.labels or ""
        if labels in self._scale.data and not os.path.exists(labels.removeprefix(REAL)):
            wanted[labels] = self._scale.data[labels].prepare
        if not _can_be_opened(Part(part.data, "train" if part.split == VALIDATION else part.split)):
            known = self._scale.data.get(part.data)
            wanted[part.data] = known.prepare if known else str(error).rpartition("type: ")[2]
        if not wanted:
            raise error
        return wanted


def _can_be_opened(part: Part) -> bool:
    try:
        part.load()
    except BadData:
        return False
    return True


def with_stand_ins(study: Study, scale: Scale) -> tuple[Study, dict[str, str]]:
    """The study with models of the same shape for those that are not there and cannot be fetched; what is not there."""
    arms, lacking = [], {}
    for arm in study.arms:
        known = scale.models.get(arm.model)
        if known is not None and not _is_there(arm.model):
            lacking[arm.model] = known.prepare
            arm = replace(arm, model=known.model, arguments={**known.arguments, **arm.arguments})
        arms.append(arm)
    return replace(study, arms=tuple(arms)), lacking


def _is_there(model: str) -> bool:
    try:
        check_name(model, False)
    except UnknownModel:
        return False
    return True


def stand_in(part: Part, published: PublishedData) -> Any:
    """Images for a part of data of which it is known how many images and classes it has."""
    if published.task != "classification":
        pixels = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), dtype=np.uint8)
        return task_stand_in(part, published, _SamePhoto.of(pixels))
    number = published.train if part.split == "train" else published.test
    number = max(published.classes, round(number * part.fraction))
    labels = np.arange(number) % published.classes
    classes = [f"class {k}" for k in range(published.classes)]
    pixels = np.random.default_rng(0).integers(0, 256, (*_PHOTO, 3), dtype=np.uint8)
    if part.data in CATALOG:
        one = np.broadcast_to(pixels[:_SIDE, :_SIDE], (number, _SIDE, _SIDE, 3))  # takes no memory
        return ImageData(part.data, part.split, classes, labels, images=one)
    return ImageData(part.data, part.split, classes, labels, reader=_SamePhoto.of(pixels))


@dataclass(frozen=True)
class _SamePhoto:
    """Decodes one and the same JPEG whatever is asked for, which takes the time that another would."""

    content: bytes
    parallel = True

    @staticmethod
    def of(pixels: np.ndarray) -> "_SamePhoto":
        packed = io.BytesIO()
        Image.fromarray(pixels).save(packed, "JPEG")
        return _SamePhoto(packed.getvalue())

    def read(self, index: int) -> Image.Image:
        return Image.open(io.BytesIO(self.content)).convert("RGB")

    def name(self, index: int) -> str:
        return f"stand-in {index}"
