"""`TaskData`: pictures with what dense and multi-modal tasks ask about them, as a data set of torch's kind.

    task            an item
    segmentation    (picture, (H, W) int16: the class of every pixel, NO_CLASS where nobody has said)
    detection       (picture, Objects: boxes, labels, masks ...)
    vqa             ((picture, question), (answers,) float32: how right each answer is, 0 to 1)

Pictures are PIL's, RGB. A set is opened by `load_data`; how its files are laid out is known to its reader.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image
from tqdm import tqdm

from vitscope.core.errors import BadData
from vitscope.core.progress import size
from vitscope.data.images import Indices, Pixels

TaskName = Literal["segmentation", "detection", "vqa"]
TASKS: tuple[TaskName, ...] = ("segmentation", "detection", "vqa")
NO_CLASS = -1  # in a mask: nobody has said what this pixel is
SAYING = {
    "segmentation": "masks with pixels that have a class",
    "detection": "pictures with objects in them",
    "vqa": "questions with answers that can be chosen",
}
_CHECKERS = 4  # PIL releases the interpreter lock while it decodes

Mask = npt.NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Objects:
    """What is to be found in one picture; K objects, perhaps none."""

    boxes: npt.NDArray[np.float32]  # (K, 4): left, top, right, bottom in pixels; right and bottom are outside
    labels: npt.NDArray[np.int64]  # (K,): 0 .. C - 1, no background
    masks: Pixels | None  # (K, H, W): 1 inside; None where the set has boxes only
    crowd: npt.NDArray[
        np.bool_
    ]  # (K,): a region of many objects that nobody counted; not learned, not held against
    areas: npt.NDArray[np.float32]  # (K,): in pixels, as the set says
    image_id: int

    def __len__(self) -> int:
        return len(self.labels)


class TaskReader(Protocol):
    """Reads pictures and targets of one set by place."""

    parallel: bool  # several threads may read at once

    def __len__(self) -> int: ...

    def picture(self, index: int) -> Image.Image:
        """The picture at `index`, RGB; at a question of visual question answering, the one that it is about."""

    def target(self, index: int) -> Any:
        """What is to be said about it."""

    def name(self, index: int) -> str:
        """What to call it in a message: its file, or its place in the set."""

    def check(self, index: int) -> bool | None:
        """Refuse a target that cannot be used, if that was not known when the set was opened.

        False: it can be used, and says nothing.
        """

    def digest(self, places: Indices) -> bytes:
        """Of what these items are, without decoding them."""


class TaskData:
    """Pictures with targets of one task.

    Attributes:
        task: "segmentation", "detection" or "vqa".
        spec: what `load_data` was asked for.
        split: which part of it.
        classes: a name per class (of detection: without a background; of vqa: the answers).
        labels: None: there is no class of a whole picture.
        reader: reads the items.
        positions: (N,) the places of the items in the reader.
        streams: the places of frames that follow one another; None if pictures are single ones.
    """

    labels = None
    broken_left_out = False  # because the caller said so, who need not say it again

    def __init__(
        self,
        task: TaskName,
        spec: str,
        split: str,
        classes: Sequence[str],
        reader: TaskReader,
        positions: Indices | None = None,
        lengths: Sequence[int] | None = None,
    ) -> None:
        self.task: TaskName = task
        self.spec = spec
        self.split = split
        self.classes = tuple(classes)
        self.reader = reader
        self.positions = np.arange(len(reader), dtype=np.int64) if positions is None else positions
        self.streams: tuple[range, ...] | None = None
        if lengths is not None:
            if sum(lengths) != len(self) or min(lengths, default=0) < 1:
                raise BadData(
                    f"{spec}: streams of {', '.join(map(str, lengths))} frames do not make up its {len(self)}; "
                    "expected all of its frames in streams that are not empty"
                )
            self.streams = tuple(range(*ends) for ends in pairwise(accumulate(lengths, initial=0)))

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        place = self._place(index)
        picture = self.reader.picture(place)
        shown = (picture, self.question(index)) if self.task == "vqa" else picture
        return shown, self.reader.target(place)

    def __repr__(self) -> str:
        streams = "" if self.streams is None else f" in {len(self.streams)} streams"
        what = {"vqa": "questions", "segmentation": "pictures", "detection": "pictures"}[self.task]
        names = "answers" if self.task == "vqa" else "classes"
        counted = f"{len(self)} {what}{streams}, {len(self.classes)} {names}"
        return f"TaskData({self.task}, {self.spec!r}, {self.split!r}: {counted})"

    def picture(self, index: int) -> Image.Image:
        """The picture of an item alone."""
        return self.reader.picture(self._place(index))

    def shown(self, index: int) -> Image.Image:
        """The same to be looked at: of images that were prepared for a model, something like what they show."""
        alike: Callable[[int], Image.Image] = getattr(self.reader, "shown", self.reader.picture)
        return alike(self._place(index))

    def size(self, index: int) -> tuple[int, int]:
        """Height and width of the picture of an item; known without decoding it where its reader is told."""
        told: Callable[[int], tuple[int, int]] | None = getattr(self.reader, "size", None)
        if told is not None:
            return told(self._place(index))
        picture = self.picture(index)
        return picture.height, picture.width

    def target(self, index: int) -> Any:
        """The target of an item, without decoding its picture."""
        return self.reader.target(self._place(index))

    def question(self, index: int) -> str:
        """The question of an item of vqa."""
        if self.task != "vqa":
            raise BadData(f"{self.spec} has no questions, it is data of {self.task}; expected data of vqa")
        return self.reader.question(self._place(index))  # type: ignore[attr-defined]

    @property
    def questions(self) -> tuple[str, ...]:
        """All questions of vqa, in the order of the items."""
        return tuple(self.question(index) for index in range(len(self)))

    def labelled(self, index: int) -> bool:
        """Whether anybody has said what is in the picture; of streams, some frames only."""
        known: Callable[[int], bool] | None = getattr(self.reader, "labelled", None)
        return True if known is None else known(self._place(index))

    def says(self, index: int) -> bool:
        """Whether there is anything to be found: a pixel with a class, an object, an answer that can be chosen."""
        target = self.target(index)
        if self.task == "segmentation":
            return bool((target != NO_CLASS).any())
        return (
            bool((~target.crowd).any()) if self.task == "detection" else bool(np.max(target, initial=0) > 0)
        )

    def name(self, index: int) -> str:
        """What to call an item in a message."""
        return self.reader.name(self._place(index))

    def subset(self, indices: npt.ArrayLike) -> "TaskData":
        """The items at `indices`, in that order; no longer a stream."""
        chosen = np.asarray(indices, dtype=np.int64)
        places = self.positions[chosen]
        return TaskData(self.task, self.spec, self.split, self.classes, self.reader, places)

    def fraction(self, fraction: float, seed: int = 0) -> "TaskData":
        """A seeded share of the pictures; of vqa with all the questions about each of them."""
        if fraction == 1.0:
            return self
        if not 0.0 < fraction < 1.0:
            raise BadData(f"fraction is {fraction}; expected a number above 0 and at most 1, such as 0.1")
        return self.subset(_share(self.picture_numbers, fraction, seed))

    def hold_out(self, share: float, seed: int = 0) -> "tuple[TaskData, TaskData]":
        """The items without a seeded share of them, and that share.

        What shows the same things is on one side: questions about one picture, pictures that overlap.
        """
        overlapping: Callable[[int], int] | None = getattr(self.reader, "overlap_number", None)
        groups = self.picture_numbers if overlapping is None else self._numbered(overlapping)
        taken = _share(groups, share, seed)
        rest = np.setdiff1d(np.arange(len(self), dtype=np.int64), taken)
        if len(rest) == 0:
            raise BadData(
                f"holding out {share} of {self.spec} leaves nothing of its {groups.max(initial=-1) + 1} groups "
                "of pictures that have nothing in common; hold out a smaller share"
            )
        return self.subset(rest), self.subset(taken)

    def check(self, show: bool = True) -> "TaskData":
        """Look at every target once, and refuse what cannot be used; gives the data back.

        Args:
            show: a bar, if it takes more than a second.
        """
        places = [int(place) for place in self.positions]
        # a bar would disturb a log file: None is shown on a terminal alone
        quiet: Any = {
            "disable": None if show else True,
            "delay": 1.0,
            "leave": False,
            "unit": "target",
            **size(),
        }
        with ThreadPoolExecutor(_CHECKERS if self.reader.parallel else 1) as pool:
            checked = pool.map(self.reader.check, places)
            try:
                told = list(tqdm(checked, f"checking {self.spec} ({self.split})", len(places), **quiet))
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
        if told and all(one is False for one in told):
            raise BadData(
                f"{self.spec} ({self.split}): none of its {len(told)} targets says anything, the first is that of "
                f"{self.name(0)}; expected {SAYING[self.task]}"
            )
        return self

    @property
    def digest(self) -> bytes:
        """What makes this data differ from others, to recognise finished work by."""
        lengths = None if self.streams is None else [len(stream) for stream in self.streams]
        digest = sha256(repr((self.task, self.spec, self.split, self.classes, lengths)).encode())
        digest.update(self.positions.tobytes())
        digest.update(self.reader.digest(self.positions))
        return digest.digest()

    @cached_property
    def picture_numbers(self) -> Indices:
        """(N,) which picture each item is about, counted from 0 in the order of their appearance."""
        told: Callable[[int], int] | None = getattr(self.reader, "picture_number", None)
        if told is None:
            return np.arange(len(self), dtype=np.int64)
        return self._numbered(told)

    def _numbered(self, told: Callable[[int], int]) -> Indices:
        """(N,) what `told` says of the place of each item, counted from 0 in the order of appearance."""
        numbers = np.array([told(int(place)) for place in self.positions], dtype=np.int64)
        _, first, group = np.unique(numbers, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[group].astype(np.int64)

    def _place(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        return int(self.positions[index])


def _share(groups: Indices, share: float, seed: int) -> Indices:
    """Positions of the items in a seeded share of the groups; a smaller share is part of a larger one."""
    n = int(groups.max(initial=-1)) + 1
    count = int(np.floor(n * share + 0.5))
    if count == 0:
        raise BadData(f"fraction {share} leaves none of {n} pictures; use at least {1.0 / max(n, 1):.2g}")
    return np.flatnonzero(np.isin(groups, np.random.default_rng(seed).permutation(n)[:count]))


def file_facts(paths: Iterable[str | os.PathLike[str] | None]) -> bytes:
    """A digest of names, sizes and times: reading a whole folder would take too long."""
    digest = sha256()
    for path in paths:
        if path is not None and os.path.isfile(path):
            status = os.stat(path)
            digest.update(f"{os.fspath(path)} {status.st_size} {status.st_mtime_ns}\n".encode())
        else:
            digest.update(f"{path}\n".encode())
    return digest.digest()
