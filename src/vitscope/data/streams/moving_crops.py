"""A stream out of still pictures: a window moves over each of them, and labels or masks move along.

    top(t) = fold(a + speed t sin d)        left(t) = fold(b + speed t cos d)        fold(x) = |((x + m) mod 2m) - m|

(a, b) is a seeded place, d a seeded direction, m how far the window can go on that axis: at the edge it turns back.
"""

from collections.abc import Sequence

import numpy as np

from vitscope.core.errors import BadData
from vitscope.data.images import Pixels
from vitscope.data.streams.frames import FrameData


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
    images = np.concatenate([_crops(photo, path, side) for photo, path in zip(pictures, paths, strict=True)])
    return FrameData(
        "moving crops",
        "test",
        classes,
        None if labels is None else np.repeat(np.asarray(labels), frames),
        [frames] * len(photos),
        images=_noisy(images, noise, seed),
        masks=None
        if masks is None
        else np.concatenate([_crops(mask, path, side) for mask, path in zip(masks, paths, strict=True)]),
    )


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


def _crops(picture: Pixels, path: np.ndarray, side: int) -> Pixels:
    return np.stack([picture[top : top + side, left : left + side] for top, left in path])


def _noisy(images: Pixels, noise: float, seed: int) -> Pixels:
    if noise == 0:
        return images
    drawn = np.random.default_rng([seed, len(images)]).normal(0.0, noise, images.shape)
    return np.clip(np.rint(images + drawn), 0, 255).astype(np.uint8)
