"""`FrameData`: frames in their order, one or several sequences of them, with a label or a mask each.

`moving_crops` makes them out of still pictures: a window moves over each, and labels or masks move along.

    top(t) = fold(a + speed t sin d)        left(t) = fold(b + speed t cos d)        fold(x) = |((x + m) mod 2m) - m|

(a, b) is a seeded place, d a seeded direction, m how far the window can go on that axis: at the edge it turns back.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from vitscope.core.errors import BadData
from vitscope.data.config import DataConfig
from vitscope.data.decode import decoding, opened
from vitscope.data.images import NO_LABEL, ImageData, ImageReader, Pixels, check_limit
from vitscope.data.preprocessing import preprocess

UNLABELLED = 255  # in a mask: nobody has said what this point is


@dataclass(frozen=True)
class MaskFiles:
    """Masks in files, of which some may be missing."""

    paths: Sequence[str | None]

    def read(self, index: int) -> Pixels | None:
        """The class of every point, (H, W); None if there is no mask."""
        path = self.paths[index]
        if path is None:
            return None
        with decoding(path), opened(path) as picture:
            if picture.mode not in ("L", "P", "1"):
                raise BadData(
                    f"the mask {path} has mode {picture.mode}; expected a class number per point: grey, or a palette"
                )
            return np.asarray(picture if picture.mode != "1" else picture.convert("P"), dtype=np.uint8)

    def digest(self) -> bytes:
        """SHA-256 of the names, sizes and modification times of all files, to notice when one has changed."""
        digest = sha256()
        for path in self.paths:
            status = "" if path is None else f"{os.stat(path).st_size} {os.stat(path).st_mtime_ns}"
            digest.update(f"{path} {status}".encode())
        return digest.digest()


class FrameData(ImageData):
    """Image data that is a stream: frames follow one another, and sequences begin anew.

    Its items are frames with their labels, so that exams of single images take it as well. Frames with masks have the
    label -1, which every exam refuses that needs a label per image.

    Attributes:
        sequences: The places of each sequence's frames.
        masks: (N, H, W) uint8 or files, in which 255 is "not labelled"; None if frames have labels.
    """

    def __init__(
        self,
        spec: str,
        split: str,
        classes: Sequence[str],
        labels: npt.NDArray[np.integer] | None,
        lengths: Sequence[int],
        images: Pixels | None = None,
        reader: ImageReader | None = None,
        masks: Pixels | MaskFiles | None = None,
    ) -> None:
        if (labels is None) == (masks is None):
            raise ValueError("give either labels or masks")
        total = sum(lengths)
        given = np.zeros(total, np.int64) if labels is None else np.asarray(labels)
        seen = {len(given), total} | ({len(images)} if images is not None else set())
        if isinstance(masks, np.ndarray):
            seen.add(len(masks))
        if len(seen) > 1 or min(lengths, default=0) < 1:
            raise BadData(
                f"{spec}: frames, labels and the lengths of sequences do not agree ({len(given)} labels, sequences of "
                f"{', '.join(map(str, lengths))}); expected one label or mask per frame, and no empty sequence"
            )
        super().__init__(spec, split, classes, given, images, reader)
        if labels is None:
            self._labels = np.full(total, NO_LABEL, np.int64)
        self.masks = masks
        self.sequences = tuple(range(*ends) for ends in pairwise(accumulate(lengths, initial=0)))

    def __repr__(self) -> str:
        what = f"{len(self)} frames in {len(self.sequences)} sequences, {len(self.classes)} classes"
        return f"FrameData({self.spec!r}, {self.split!r}: {what})"

    @property
    def digest(self) -> bytes:
        """Of what makes a stream more than its images: where sequences begin, and the masks."""
        digest = sha256(str([len(sequence) for sequence in self.sequences]).encode())
        if isinstance(self.masks, np.ndarray):
            digest.update(np.ascontiguousarray(self.masks).tobytes())
        elif self.masks is not None:
            digest.update(self.masks.digest())
        return digest.digest()

    def starts(self, limit: int | None) -> list[range]:
        """The sequences, cut to their first frames so that there are at most `limit`, the same number of each.

        Below two frames for each, the last sequences are left out.
        """
        if limit is None or limit >= len(self):
            return list(self.sequences)
        check_limit(limit)
        used: list[range] = []
        count, left = max(1, min(len(self.sequences), limit // 2)), limit
        for number, sequence in enumerate(self.sequences[:count]):
            used.append(sequence[: left // (count - number)])
            left -= len(used[-1])
        return used

    def prepared_masks(self, places: Sequence[int], config: DataConfig) -> Tensor:
        """(N, H, W) classes, cut and scaled as the frames are, without mixing neighbours."""
        if self.masks is None:
            raise BadData(f"{self.spec} has no masks; expected a stream with a class per point")
        as_they_are = replace(
            config, input_size=(1, *config.input_size[1:]), mean=(0.0,), std=(1.0,), interpolation="nearest"
        )
        return torch.cat([self._mask(place, as_they_are) for place in places])

    def _mask(self, place: int, config: DataConfig) -> Tensor:
        masks = self.masks
        mask = masks[place] if isinstance(masks, np.ndarray) else masks.read(place)  # type: ignore[union-attr]
        if mask is None:
            return torch.full((1, *config.input_size[1:]), UNLABELLED)
        return (preprocess(mask[None, ..., None], config)[:, 0] * 255.0).round().long()


def pieces(places: range, size: int) -> Iterator[range]:
    """Consecutive pieces of at most `size` places."""
    for start in range(0, len(places), size):
        yield places[start : start + size]


def moving_crops(
    photos: Sequence[Pixels],
    labels: Sequence[int] | None = None,
    masks: Sequence[Pixels] | None = None,
    *,
    classes: Sequence[str],
    side: int = 32,
    frames: int = 50,
    speed: float = 1.0,
    noise: float = 0.0,
    seed: int = 0,
) -> FrameData:
    """A sequence of crops of each photo.

    Args:
        photos: (H, W) or (H, W, C) uint8 each, of any size that holds the window.
        labels: A class for each photo: all its frames have it.
        masks: (H, W) uint8 for each photo: the class of every point, 255 where it is not known. Instead of labels.
        classes: Their names.
        side: Of the window.
        frames: Of each sequence.
        speed: In points per frame.
        noise: Standard deviation of Gaussian noise, in grey levels, drawn for every frame anew.
        seed: Of paths and noise.
    """
    if (labels is None) == (masks is None):
        raise BadData("moving_crops was given both or none of labels and masks; expected one of them")
    if len(photos) == 0 or len(photos) != len(labels if labels is not None else masks or ()):
        raise BadData(f"{len(photos)} photos; expected at least one, and a label or mask for each")
    paths = [window_path(photo.shape[:2], side, frames, speed, seed, i) for i, photo in enumerate(photos)]
    pictures = [photo[..., None] if photo.ndim == 2 else photo for photo in photos]
    repeated = None if labels is None else np.repeat(np.asarray(labels), frames)
    lengths, images = [frames] * len(photos), _noisy(_crops(pictures, paths, side), noise, seed)
    moved = None if masks is None else _crops(masks, paths, side)
    return FrameData("moving crops", "test", classes, repeated, lengths, images=images, masks=moved)


def window_path(
    size: tuple[int, ...], side: int, frames: int, speed: float, seed: int = 0, number: int = 0
) -> np.ndarray:
    """(frames, 2): row and column of the window's corner."""
    room = np.array(size) - side
    if room.min() < 0:
        raise BadData(f"a picture of {size[0]}x{size[1]} points has no window of {side}; take a smaller side")
    generator = np.random.default_rng([seed, number])
    start, direction = generator.random(2) * room, generator.random() * 2 * np.pi
    way = start + speed * np.arange(frames)[:, None] * np.array([np.sin(direction), np.cos(direction)])
    return np.rint(_fold(way, room)).astype(np.int64)


def _fold(x: np.ndarray, room: np.ndarray) -> np.ndarray:
    """`x` between 0 and `room`, turned back at both ends."""
    period = np.maximum(2 * room, 1)
    return np.where(room > 0, np.abs((x + room) % period - room), 0)


def _crops(pictures: Sequence[Pixels], paths: Sequence[np.ndarray], side: int) -> Pixels:
    ways = [(picture, *corner) for picture, path in zip(pictures, paths, strict=True) for corner in path]
    return np.stack([picture[top : top + side, left : left + side] for picture, top, left in ways])


def _noisy(images: Pixels, noise: float, seed: int) -> Pixels:
    if noise == 0:
        return images
    drawn = np.random.default_rng([seed, len(images)]).normal(0.0, noise, images.shape)
    return np.clip(np.rint(images + drawn), 0, 255).astype(np.uint8)
