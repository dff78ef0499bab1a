"""Data of tasks that `vitscope data prepare` has put into arrays: who reads them, by task.

coral, coral-stream    images (N, H, W, 3), masks (N, H, W): a class per pixel; lengths (S,): frames of each stream
coral-objects          images, objects (N, H, W): the number of the object at each pixel, from 1; labels (objects,)
easy-vqa               images (M, H, W, 3), questions (N,) text, answers (N,), pictures (N,): the image of each
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
import numpy.typing as npt
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data.catalog import CatalogEntry, open_prepared
from vitscope.data.images import Indices, Pixels
from vitscope.data.task_data import Mask, Objects, TaskData, TaskReader

SMALLEST = 16  # pixels; what a tile shows of an object, if it is less, is a crowd: nobody has to find it


@dataclass(frozen=True, eq=False)
class ArrayPictures:
    """Pictures in an array."""

    what: str  # what to call the set in a message
    images: Pixels  # (N, H, W, 3)
    overlapping: int = field(default=1, kw_only=True)  # so many in a row share pixels

    parallel = True

    def __len__(self) -> int:
        return len(self.images)

    def picture(self, index: int) -> Image.Image:
        """See `TaskReader`."""
        return Image.fromarray(np.asarray(self.images[index]))

    def size(self, index: int) -> tuple[int, int]:
        """Height and width."""
        return int(self.images.shape[1]), int(self.images.shape[2])

    def overlap_number(self, index: int) -> int:
        """Pictures that share pixels have one number."""
        return index // self.overlapping

    def name(self, index: int) -> str:
        """See `TaskReader`."""
        return f"picture {index} of {self.what}"

    def check(self, index: int) -> None:
        """What was prepared is known to be whole."""


@dataclass(frozen=True, eq=False)
class MaskArrays(ArrayPictures):
    """Pictures with a class per pixel."""

    masks: Pixels  # (N, H, W)

    def target(self, index: int) -> Mask:
        """See `TaskReader`."""
        return self.masks[index].astype(np.int16)

    def digest(self, places: Indices) -> bytes:
        """See `TaskReader`."""
        return _digest(places, self.images, self.masks)


@dataclass(frozen=True, eq=False)
class ObjectArrays(ArrayPictures):
    """Pictures in which every pixel knows the object that it is of."""

    objects: npt.NDArray[np.int16]  # (N, H, W): 0 where there is none
    labels: npt.NDArray[np.uint8]  # (objects,)

    def target(self, index: int) -> Objects:
        """See `TaskReader`."""
        numbers = np.unique(self.objects[index])
        numbers = numbers[numbers > 0]
        masks = (self.objects[index] == numbers[:, None, None]).astype(np.uint8)
        areas = masks.sum(axis=(1, 2), dtype=np.float32)
        return Objects(
            boxes=boxes_around(masks),
            labels=self.labels[numbers - 1].astype(np.int64),
            masks=masks,
            crowd=areas < SMALLEST,
            areas=areas,
            image_id=index,
        )

    def digest(self, places: Indices) -> bytes:
        """See `TaskReader`."""
        return _digest(places, self.images, self.objects, whole=(self.labels,))


@dataclass(frozen=True, eq=False)
class BoxArrays(ArrayPictures):
    """Pictures with boxes of one class."""

    boxes: npt.NDArray[np.float32]  # (M, 6): image, left, top, right, bottom, whether it is a crowd

    def target(self, index: int) -> Objects:
        """See `TaskReader`."""
        found = self.boxes[self.boxes[:, 0] == index]
        corners = found[:, 1:5]
        return Objects(
            boxes=corners,
            labels=np.zeros(len(found), np.int64),
            masks=None,
            crowd=found[:, 5] > 0,
            areas=(corners[:, 2:] - corners[:, :2]).prod(axis=1),
            image_id=index,
        )

    def digest(self, places: Indices) -> bytes:
        """See `TaskReader`."""
        return _digest(places, self.images, whole=(self.boxes,))


@dataclass(frozen=True, eq=False)
class QuestionArrays(ArrayPictures):
    """Questions about pictures, with one right answer each."""

    questions: npt.NDArray[np.str_]  # (N,)
    answers: npt.NDArray[np.uint8]  # (N,)
    pictures: npt.NDArray[np.int64]  # (N,): the place of the image
    n_answers: int

    def __len__(self) -> int:
        return len(self.questions)

    def picture(self, index: int) -> Image.Image:
        """See `TaskReader`."""
        return super().picture(int(self.pictures[index]))

    def picture_number(self, index: int) -> int:
        """Which picture a question is about."""
        return int(self.pictures[index])

    def overlap_number(self, index: int) -> int:
        """The overlap number of the picture that the question is about."""
        return super().overlap_number(self.picture_number(index))

    def question(self, index: int) -> str:
        """The question."""
        return str(self.questions[index])

    def target(self, index: int) -> npt.NDArray[np.float32]:
        """See `TaskReader`."""
        scores = np.zeros(self.n_answers, np.float32)
        scores[self.answers[index]] = 1.0
        return scores

    def name(self, index: int) -> str:
        """See `TaskReader`."""
        return f"question {index} of {self.what}"

    def digest(self, places: Indices) -> bytes:
        """See `TaskReader`."""
        asked = self.questions[places], self.answers[places], self.pictures[places]
        return _digest(np.unique(self.pictures[places]), self.images, whole=asked)


def open_task_set(entry: CatalogEntry, split: str) -> TaskData:
    """A prepared set as the data of its task."""
    images, *others = open_prepared(entry, split)
    what, lengths = f"{entry.name} ({split})", None
    overlapping = entry.overlapping if split == "train" else 1
    reader: TaskReader
    if entry.task == "segmentation":
        reader = MaskArrays(what, images, others[0], overlapping=overlapping)
        lengths = others[1].tolist() if len(others) > 1 else None
    elif entry.task == "detection":
        arrays = ObjectArrays if "objects" in entry.arrays else BoxArrays
        reader = arrays(what, images, *others, overlapping=overlapping)
    else:
        questions, answers, pictures = others
        reader = QuestionArrays(what, images, questions, answers, pictures, len(entry.classes))
    if len(reader) != entry.size(split):
        raise BadData(
            f"{what} has {len(reader)} items instead of {entry.size(split)}; "
            f"type: vitscope data prepare {entry.name}"
        )
    return TaskData(entry.task, entry.name, split, entry.classes, reader, lengths=lengths)  # type: ignore[arg-type]


def boxes_around(masks: Pixels) -> npt.NDArray[np.float32]:
    """(K, 4): the smallest boxes that hold the masks (K, H, W), none of which is empty."""
    boxes = np.zeros((len(masks), 4), np.float32)
    for box, mask in zip(boxes, masks, strict=True):
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        box[:] = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    return boxes


def _digest(
    places: Indices, *arrays: npt.NDArray[np.generic], whole: Sequence[npt.NDArray[np.generic]] = ()
) -> bytes:
    """Of the arrays' bytes at these places, and of those that count as a whole."""
    digest = sha256()
    for array in whole:
        digest.update(np.ascontiguousarray(array).tobytes())
    for array in arrays:
        for start in range(0, len(places), 1024):
            digest.update(np.ascontiguousarray(array[places[start : start + 1024]]).tobytes())
    return digest.digest()
