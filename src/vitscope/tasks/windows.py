"""Scores of a picture that is larger than the model: of windows, averaged where they overlap.

The picture is brought to a shorter side of `window` times the model's, and keeps its shape. Windows as large as the
model's images stand at every 2/3 of their side, the last at the edge; the score of a pixel is the mean over the windows
that hold it. With `window` 1 this is how models of ADE20K are usually evaluated.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vitscope.data import DataConfig
from vitscope.data.preprocessing import preprocess
from vitscope.tasks.upsampled import at_size

AT_ONCE = 16  # windows in a forward pass


def places(length: int, side: int) -> list[int]:
    """Where windows of `side` begin in `length` pixels."""
    stride = max(1, side * 2 // 3)
    last = max(length - side, 0)
    return [*range(0, last, stride), last]


def scaled_picture(picture: Any, config: DataConfig, window: float) -> Tensor:
    """(C, H, W) a picture prepared for windows: as high and as wide as one at least."""
    channels, tall, wide = config.input_size
    scale = window * max(tall, wide) / min(picture.size)
    size = (max(tall, round(picture.size[1] * scale)), max(wide, round(picture.size[0] * scale)))
    return preprocess([picture], dataclasses.replace(config.whole(), input_size=(channels, *size)))[0]


def windowed_scores(score: Callable[[Tensor], Tensor], image: Tensor, side: tuple[int, int]) -> Tensor:
    """(K, H, W) of an image (C, H, W); `score` gives (N, K, h, w) of windows (N, C, *side)."""
    tall, wide = side
    corners = [(y, x) for y in places(image.shape[1], tall) for x in places(image.shape[2], wide)]
    total, seen = None, image.new_zeros(image.shape[1:])
    for first in range(0, len(corners), AT_ONCE):
        some = corners[first : first + AT_ONCE]
        shown = torch.stack([image[:, y : y + tall, x : x + wide] for y, x in some])
        found = at_size(score(shown).float(), side)
        total = found.new_zeros(found.shape[1], *image.shape[1:]) if total is None else total
        for (y, x), own in zip(some, found, strict=True):
            total[:, y : y + tall, x : x + wide] += own
            seen[y : y + tall, x : x + wide] += 1
    assert total is not None  # there is a window at least
    return total / seen
