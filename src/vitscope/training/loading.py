"""The images of a training: where they come from, which are broken, how long they take, and what goes wrong meanwhile.

Broken ones are named in an error, or counted and passed over; what a process that loads images dies of is said in one
line.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from vitscope.core import distributed
from vitscope.core.errors import BadData, VitscopeError, memory_in_words
from vitscope.core.lost_loaders import LOST, is_lost_loader, let_go, reason_of
from vitscope.data import ImageData, load_data
from vitscope.data.broken_images import few, without_broken
from vitscope.data.decode import MEND
from vitscope.data.fetchers import require_labels
from vitscope.data.folder import divided, without_splits
from vitscope.data.images import class_names
from vitscope.data.task_data import TaskData
from vitscope.training.checkpoint import Progress


@dataclass(frozen=True)
class TrainingImages:
    """Images to train on and images to look at."""

    train: Any
    held_out: Any  # None if there are none
    classes: tuple[str, ...] | None
    name: str
    not_held_out: Sequence[str] = ()  # names of those that are broken, and left out


def find_images(
    data: Any, held_out: Any, fraction: float, seed: int, skip_broken: bool = False
) -> TrainingImages:
    """Images from a spec ("fashion"), from what `load_data` gave, or from any data set of (picture, label).

    Of a spec, and of `load_data`'s training split, the test split is held out unless `held_out` is given.
    Where broken images are passed over, empty files and links that lead nowhere are such images.
    """
    if isinstance(data, str | Path):
        data = load_data(str(data), split="train", check=not skip_broken)
    if isinstance(data, ImageData):
        require_labels(data, "a training", is_exam=False)
    if isinstance(data, ImageData | TaskData):
        if held_out is None and data.split == "train":
            if without_splits(data):
                data, held_out = _some_held_out(data)
            else:
                held_out = load_data(data.spec, split="test", check=not skip_broken)
        if isinstance(data, TaskData) and not skip_broken:
            for part in (data, held_out):
                if isinstance(part, TaskData) and distributed.is_main():
                    part.check()
        if isinstance(held_out, ImageData):
            require_labels(held_out, "a training", is_exam=False)
        return TrainingImages(data.fraction(fraction, seed), held_out, data.classes, data.spec)
    if fraction != 1.0:
        raise VitscopeError(
            f"fraction={fraction} needs data by name; take a part of the data set yourself (torch's Subset)"
        )
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")) or len(data) == 0:
        raise BadData(
            f"cannot train on this {type(data).__name__}: expected a data set of (picture, label), not empty"
        )
    if isinstance(data, Tensor | np.ndarray | tuple | list) and isinstance(data[0], Tensor | np.ndarray):
        raise BadData(
            "cannot train on tensors: images are augmented here, as pictures; expected a data set of (PIL picture or "
            "8-bit array, label)"
        )
    return TrainingImages(data, held_out, class_names(data), type(data).__name__)


def _some_held_out(data: ImageData | TaskData) -> tuple[Any, Any]:
    """Images to train on and others; says so."""
    learned, held_out = divided(data)
    if distributed.is_main():
        print(
            f"vitscope: {data.spec} has no folders train and test: {len(held_out)} of its {len(data)} images are held "
            f"out, the others are trained on",
            file=sys.stderr,
        )
    return learned, held_out


def with_broken_named(images: TrainingImages, skip_broken: bool) -> TrainingImages:
    """The images, of which the broken ones are named, or passed over."""
    held_out: Any = images.held_out
    names: list[str] = []
    if skip_broken and isinstance(held_out, ImageData):
        held_out, names = without_broken(held_out)
        if names and distributed.is_main():
            print(f"vitscope: {len(names)} held-out images are broken: {few(names)}", file=sys.stderr)
    train = Readable(images.train, skip_broken)
    return replace(images, train=train, held_out=held_out, not_held_out=names)


class Readable(Dataset[tuple[Any, Any]]):
    """A data set that says which of its pictures cannot be read, or takes the next one in its place.

    With a stand-in, steps keep their number of images, whichever are broken and whoever reads them.

    Attributes:
        broken: (N,) whether an image was found to be broken; shared with the processes that load images.
    """

    def __init__(self, data: Any, skip: bool) -> None:
        self.data = data
        self.skip = skip
        self._dense = isinstance(data, TaskData)
        self.broken = torch.zeros(len(data), dtype=torch.bool).share_memory_()

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        n = len(self)
        for place in (i % n for i in range(index, index + n)):
            if self.broken[place]:
                continue
            try:
                image, target = self.data[place]
                if isinstance(image, Image.Image):
                    image.load()  # PIL decodes as late as it can
                return image, target if self._dense else int(target)
            except Exception as error:
                if not self.skip:
                    raise self._named(place, error) from error
                self.broken[place] = True
        raise BadData(f"none of the {n} images can be read; the first is {self.name(0)}")

    def name(self, index: int) -> str:
        """What to call an image in a message."""
        return str(self.data.name(index)) if hasattr(self.data, "name") else f"image {index} of the data set"

    def broken_names(self) -> list[str]:
        """The images that any process has found to be broken; every process must call this."""
        found = distributed.gather(self.broken.nonzero().flatten().tolist())
        return [self.name(index) for index in sorted({index for part in found for index in part})]

    def _named(self, index: int, error: Exception) -> BadData:
        if isinstance(error, BadData):
            return error
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return BadData(f"cannot read {self.name(index)} ({reason}); {MEND}")


def timed(batches: Iterable[Any], progress: Progress) -> Iterator[Any]:
    """The batches; the time until each of them is there is added to `progress.waited`."""
    iterator = iter(batches)
    while True:
        began = time.monotonic()
        try:
            batch = next(iterator)
        except StopIteration:
            return
        finally:
            progress.waited += time.monotonic() - began
        yield batch


@contextmanager
def loading_explained() -> Iterator[None]:
    """Turn what a `DataLoader` raises for its worker processes into an error without their tracebacks."""
    try:
        yield
    except VitscopeError as error:
        lines = str(error.args[0] if error.args else "").strip().splitlines()
        if not lines or not lines[0].startswith("Caught "):
            raise
        raise type(error)(lines[-1].partition(": ")[2]) from error  # the worker's "module.Class: message"
    except LOST as error:
        if not is_lost_loader(error):
            raise
        let_go(error)
        reason, memory = reason_of(error), memory_in_words(error)
        if memory is not None:
            raise VitscopeError(
                f"{memory} (it was a process that loads images: fewer --workers need less)"
            ) from error
        raise BadData(
            f"a process that loads images has died ({reason}): it ran out of memory, or the data set crashes; "
            "try fewer --workers, or --workers 0 to see it happen here"
        ) from error
