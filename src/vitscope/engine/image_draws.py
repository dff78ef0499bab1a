"""Random numbers that belong to an image: the same in whatever batch, order or process it is met.

Every draw is seeded by (what it is for, seed, place of the image in the data), so that exams with different numbers of
processes, and two models on the same images, see the same noise.

One bit per image of the data, 64 of them in an int64: small enough to keep which images a model gets right.

Image i is bit i mod 64 of word i // 64. Processes that have seen different images add their words up.
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


WORD = 64


def with_bits(words: Tensor, indices: Tensor) -> Tensor:
    """`words`, as long as needed, with the bits of the images at `indices` set; they must not be set already."""
    if not len(indices):
        return words
    longer = lengthened(words, int(indices.max()) // WORD + 1)
    return longer.index_add(0, indices // WORD, torch.ones_like(indices) << (indices % WORD))


def lengthened(rows: Tensor, length: int) -> Tensor:
    """`rows` with zeros after them, at least `length` in all."""
    missing = length - len(rows)
    return torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])]) if missing > 0 else rows
