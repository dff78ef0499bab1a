"""`ImageData`: images and labels with a name, as a data set of torch's kind that yields decoded pictures.

Its subsets are seeded and class-stratified: the same seed gives the same images on every machine.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from vitscope.core.errors import BadData

Indices = npt.NDArray[np.int64]
Pixels = npt.NDArray[np.uint8]

NO_LABEL = -1  # of an image without a class, and of a frame that has a mask in its place
HELD_OUT = "held-out"  # of images without folders for splits, the part that a training does not learn from


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

    broken_left_out = False  # because the caller said so, who need not say it again

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
        if not self.unlabelled:
            check_labels(self._labels, len(self.classes), f"{spec} ({split})")

    @property
    def unlabelled(self) -> bool:
        """Whether there are no classes, and so no image has a label: each is `NO_LABEL`."""
        return not self.classes and bool((self._labels == NO_LABEL).all())

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
        if self.images is not None:
            return to_picture(np.asarray(self.images[index])), int(self.labels[index])
        assert self.reader is not None
        return self.reader.read(int(self.positions[index])), int(self.labels[index])

    def __repr__(self) -> str:
        size = "decoded on demand" if self.images is None else "x".join(map(str, self.images.shape[1:]))
        classes = "no labels" if self.unlabelled else f"{len(self.classes)} classes"
        what = f"{len(self)} images, {classes}, {size}"
        return f"ImageData({self.spec!r}, {self.split!r}: {what})"

    def name(self, index: int) -> str:
        """What to call image `index` in a message: its file, or its place in the whole data set."""
        if self.reader is not None:
            return self.reader.name(int(self.positions[index]))
        return f"image {int(self.positions[index])} of {self.spec} ({self.split})"

    def subset(self, indices: Indices) -> "ImageData":
        """The images at `indices`, in that order."""
        indices = np.asarray(indices, dtype=np.int64)
        images = None if self.images is None else self.images[indices]
        labels, positions = self.labels[indices], self.positions[indices]
        return ImageData(self.spec, self.split, self.classes, labels, images, self.reader, positions)

    def fraction(self, fraction: float, seed: int = 0) -> "ImageData":
        """A seeded share of every class."""
        if fraction == 1.0:
            return self
        return self.subset(fraction_indices(self.labels, fraction, seed, self.classes))

    def hold_out(self, share: float, seed: int = 0) -> "tuple[ImageData, ImageData]":
        """The images without a seeded share of every class, and that share."""
        taken = fraction_indices(self.labels, share, seed, self.classes)
        rest = np.setdiff1d(np.arange(len(self), dtype=np.int64), taken)
        return self.subset(rest), self.subset(taken)


def to_picture(pixels: Pixels) -> Image.Image:
    """(H, W, C) bytes as a grey or RGB picture."""
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


def class_names(data: Any) -> tuple[str, ...] | None:
    """A name per class, if the data has a list of them; data of one's own need not."""
    names = getattr(data, "classes", None)
    if isinstance(names, np.ndarray):
        names = names.tolist()
    return tuple(map(str, names)) if isinstance(names, list | tuple) and names else None


def check_labels(labels: npt.NDArray[np.integer], n_classes: int, what: str) -> None:
    """Refuse labels outside 0 .. n_classes - 1; `what` names the data in the message."""
    if len(labels) == 0:
        return
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= n_classes:
        seen = low if low < 0 else high
        where = int(np.flatnonzero(labels == seen)[0])
        wider = "" if low < 0 else f"give the model num_classes={high + 1} or more, or "
        raise BadData(
            f"{what}: image {where} has label {seen}, expected 0 to {n_classes - 1}; {wider}correct the labels"
        )


def fraction_indices(labels: Indices, fraction: float, seed: int = 0, classes: Sequence[str] = ()) -> Indices:
    """Positions, in ascending order, of `fraction` of every class.

    A class of n images keeps n x fraction of them, rounded half up. With one seed, a smaller fraction is
    a subset of a larger one, so that learning curves over fractions compare like with like.
    """
    if not 0.0 < fraction <= 1.0:
        raise BadData(
            f"fraction is {fraction}; expected a number above 0 and at most 1, such as 0.02 for 2 %"
        )
    if fraction == 1.0:
        return np.arange(len(labels), dtype=np.int64)
    kept = []
    for label, members in _by_class(labels, seed):
        count = int(np.floor(len(members) * fraction + 0.5))
        if count == 0:
            name = f"'{classes[label]}'" if 0 <= label < len(classes) else str(label)
            left = f"leaves class {name} ({len(members)} images) empty"
            if label == NO_LABEL:
                left = f"leaves none of {len(members)} images"
            raise BadData(
                f"fraction {fraction} {left}; use a fraction of at least {_smallest_fraction(labels):.2g}"
            )
        kept.append(members[:count])
    return np.sort(np.concatenate(kept))


def limit_indices(labels: Indices, limit: int, seed: int = 0) -> Indices:
    """Positions, in ascending order, of exactly `limit` images whose class shares are those of the whole.

    Shares that are not whole numbers are settled by largest remainder, ties by a seeded draw. Below one image
    per class the classes that get one are drawn as well.
    """
    check_limit(limit)
    if limit >= len(labels):
        return np.arange(len(labels), dtype=np.int64)
    groups = _by_class(labels, seed)
    ideal = np.array([len(members) for _, members in groups]) * (limit / len(labels))
    counts = np.floor(ideal).astype(np.int64)
    tie_break = np.random.default_rng([seed, len(groups)]).permutation(len(groups))
    by_remainder = np.lexsort((tie_break, -np.round(ideal - counts, 9)))
    counts[by_remainder[: limit - counts.sum()]] += 1
    kept = [members[:count] for (_, members), count in zip(groups, counts, strict=True)]
    return np.sort(np.concatenate(kept))


def check_limit(limit: int) -> None:
    """Refuse a limit that leaves nothing."""
    if limit < 1:
        raise BadData(f"limit is {limit}; expected at least 1 image, or no limit at all")


def _by_class(labels: Indices, seed: int) -> list[tuple[int, Indices]]:
    """Each class that occurs with its positions in a seeded order."""
    order = np.argsort(labels, kind="stable")
    values, starts = np.unique(labels[order], return_index=True)
    members = np.split(order, starts[1:])
    return [
        (int(value), np.random.default_rng([seed, int(value) & 0xFFFFFFFF]).permutation(positions))
        for value, positions in zip(values, members, strict=True)
    ]


def _smallest_fraction(labels: Indices) -> float:
    """The smallest fraction that leaves no class empty, rounded up to two significant digits."""
    exact = 0.5 / np.unique(labels, return_counts=True)[1].min()
    unit = 10.0 ** (np.floor(np.log10(exact)) - 1)
    return float(min(np.ceil(exact / unit - 1e-9) * unit, 1.0))
