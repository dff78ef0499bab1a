"""`ImageData`: images and labels with a name, as a data set of torch's kind that yields decoded pictures."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data.subsets import fraction_indices

Indices = npt.NDArray[np.int64]
Pixels = npt.NDArray[np.uint8]


class ImageReader(Protocol):
    """Decodes pictures on demand, for data that does not fit into memory."""

    parallel: bool  # several threads may read at once

    def read(self, index: int) -> Image.Image:
        """The picture at `index`, with 8 bits per channel."""

    def name(self, index: int) -> str:
        """What to call it in a message."""


class ImageData:
    """Labelled images; an item is a PIL image (grey or RGB) and its label.

    Attributes:
        spec: what `load_data` was asked for.
        split: which part of it.
        classes: a name per class.
        images: (N, H, W, C) uint8, possibly memory-mapped; None if pictures are decoded on demand.
        reader: decodes on demand; None if `images` holds them.
    """

    def __init__(
        self,
        spec: str,
        split: str,
        classes: Sequence[str],
        labels: npt.NDArray[np.integer],
        images: Pixels | None = None,
        reader: ImageReader | None = None,
        positions: Indices | None = None,
    ) -> None:
        if (images is None) == (reader is None):
            raise ValueError("give either images or a reader")
        self.spec = spec
        self.split = split
        self.classes = tuple(classes)
        self._labels: Indices = np.asarray(labels, dtype=np.int64)
        self.images = images
        self.reader = reader
        self.positions = np.arange(len(self._labels), dtype=np.int64) if positions is None else positions
        check_labels(self._labels, len(self.classes), f"{spec} ({split})")

    @property
    def labels(self) -> Indices:
        """(N,) int64."""
        return self._labels

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"image {index} of {len(self)}")
        index = index % len(self)
        return self._picture(index), int(self.labels[index])

    def __repr__(self) -> str:
        size = "decoded on demand" if self.images is None else "x".join(map(str, self.images.shape[1:]))
        what = f"{len(self)} images, {len(self.classes)} classes, {size}"
        return f"ImageData({self.spec!r}, {self.split!r}: {what})"

    def name(self, index: int) -> str:
        """What to call image `index` in a message: its file, or its place in the whole data set."""
        if self.reader is not None:
            return self.reader.name(int(self.positions[index]))
        return f"image {int(self.positions[index])} of {self.spec} ({self.split})"

    def subset(self, indices: Indices) -> "ImageData":
        """The images at `indices`, in that order."""
        indices = np.asarray(indices, dtype=np.int64)
        return ImageData(
            self.spec,
            self.split,
            self.classes,
            self.labels[indices],
            images=None if self.images is None else self.images[indices],
            reader=self.reader,
            positions=self.positions[indices],
        )

    def fraction(self, fraction: float, seed: int = 0) -> "ImageData":
        """A seeded share of every class."""
        if fraction == 1.0:
            return self
        return self.subset(fraction_indices(self.labels, fraction, seed, self.classes))

    def _picture(self, index: int) -> Image.Image:
        if self.images is None:
            assert self.reader is not None
            return self.reader.read(int(self.positions[index]))
        pixels = np.asarray(self.images[index])
        return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


def check_labels(labels: npt.NDArray[np.integer], n_classes: int, what: str) -> None:
    """Refuse labels outside 0 .. n_classes - 1; `what` names the data in the message."""
    if len(labels) == 0:
        return
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= n_classes:
        seen = low if low < 0 else high
        where = int(np.flatnonzero(labels == seen)[0])
        raise BadData(
            f"{what}: image {where} has label {seen}, expected 0 to {n_classes - 1}; give the model "
            f"num_classes={max(high, 0) + 1} or more, or correct the labels"
        )
