"""Pictures with targets in the place of data of tasks that is not on this machine: of its size and kind, of no content.

segmentation   every pixel is of some class, in squares
detection      seven objects, as a picture of COCO has, of two sizes
vqa            a question of six words, as one of VQAv2 has, and one right answer
"""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from PIL import Image

from vitscope.data.images import Indices
from vitscope.data.task_data import Objects, TaskData
from vitscope.studies.images import Part
from vitscope.studies.scales import PublishedData

SIZE = (480, 640)  # height and width of most pictures of COCO, near the average of ADE20K
_SQUARE, _OBJECTS = 40, 7
_QUESTION = "what is the man holding here"


@dataclass(frozen=True, eq=False)
class StandInReader:
    """One and the same picture as often as asked, decoded each time, with a target of the task."""

    published: PublishedData
    number: int
    photo: Any = field(repr=False)  # SIZE large; reads the same each time

    parallel = True

    def __len__(self) -> int:
        return self.number

    def picture(self, index: int) -> Image.Image:
        """See `TaskReader`."""
        found: Image.Image = self.photo.read(index)
        return found

    def target(self, index: int) -> Any:
        """See `TaskReader`."""
        classes = self.published.classes
        if self.published.task == "vqa":
            return np.eye(classes, dtype=np.float32)[index % classes]
        if self.published.task == "segmentation":
            rows, columns = (np.arange(side) // _SQUARE for side in SIZE)
            return ((index + rows[:, None] * 7 + columns) % classes).astype(np.int16)
        return _objects(index, classes)

    def question(self, index: int) -> str:
        """The same question about every picture, for studies of answers to questions."""
        return _QUESTION

    def name(self, index: int) -> str:
        """See `TaskReader`."""
        return f"stand-in {index}"

    def check(self, index: int) -> None:
        """There is nothing that could be wrong."""

    def digest(self, places: Indices) -> bytes:
        """See `TaskReader`."""
        return sha256(f"{self.published} {self.number} {len(places)}".encode()).digest()


def _objects(index: int, classes: int) -> Objects:
    masks = np.zeros((_OBJECTS, *SIZE), np.uint8)
    boxes = np.zeros((_OBJECTS, 4), np.float32)
    for k in range(_OBJECTS):
        side = 40 if k % 2 else 120
        left, top = 80 * k, 40 * k
        masks[k, top : top + side, left : left + side] = 1
        boxes[k] = left, top, min(left + side, SIZE[1]), min(top + side, SIZE[0])
    return Objects(
        boxes=boxes,
        labels=(index + np.arange(_OBJECTS)) % classes,
        masks=masks,
        crowd=np.zeros(_OBJECTS, bool),
        areas=masks.sum((1, 2), dtype=np.float32),
        image_id=index,
    )


def task_stand_in(part: Part, published: PublishedData, photo: Any) -> TaskData:
    """Data of a task for a part of a set of which it is known how many pictures (or questions) and classes it has."""
    assert published.task != "classification"
    number = published.train if part.split == "train" else published.test
    classes = [f"class {k}" for k in range(published.classes)]
    reader = StandInReader(published, max(1, round(number * part.fraction)), photo)
    return TaskData(published.task, part.data, part.split, classes, reader)
