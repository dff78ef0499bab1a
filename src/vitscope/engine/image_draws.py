"""Random numbers that belong to an image: the same in whatever batch, order or process it is met.

Every draw is seeded by (what it is for, seed, place of the image in the data), so that exams with different numbers of
processes, and two models on the same images, see the same noise.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

NOISE, START, PATCHES, PAIRS = range(4)
"""What a draw is for."""


def image_generators(purpose: int, seed: int, indices: Tensor) -> Iterator[np.random.Generator]:
    """A generator for each image."""
    for index in indices.tolist():
        yield np.random.default_rng([purpose, seed % 2**64, index])


def gaussian(purpose: int, seed: int, indices: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(N, *shape) standard normal numbers."""
    draws = [g.standard_normal(shape, np.float32) for g in image_generators(purpose, seed, indices)]
    return torch.from_numpy(np.stack(draws))


def uniform(purpose: int, seed: int, indices: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(N, *shape) numbers in [0, 1)."""
    draws = [g.random(shape, np.float32) for g in image_generators(purpose, seed, indices)]
    return torch.from_numpy(np.stack(draws))
