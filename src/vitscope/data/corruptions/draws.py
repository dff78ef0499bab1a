"""Random numbers that belong to an image: whatever batch, order or process it is corrupted in, they are the same."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

Draws = Sequence[np.random.Generator]  # one per image of a batch


def draws_for(seed: int, indices: Iterable[int], *purpose: int) -> list[np.random.Generator]:
    """The generators of the images at these places of the data; other purposes have other numbers."""
    return [np.random.Generator(np.random.SFC64((seed % 2**64, int(index), *purpose))) for index in indices]


def normals(draws: Draws, *shape: int) -> Tensor:
    """(N, *shape) float32 numbers of mean 0 and deviation 1."""
    found = np.empty((len(draws), *shape), np.float32)
    for row, draw in zip(found, draws, strict=True):
        draw.standard_normal(out=row, dtype=np.float32)
    return torch.from_numpy(found)


def uniforms(draws: Draws, *shape: int) -> Tensor:
    """(N, *shape) float32 numbers from 0 to 1."""
    found = np.empty((len(draws), *shape), np.float32)
    for row, draw in zip(found, draws, strict=True):
        draw.random(out=row, dtype=np.float32)
    return torch.from_numpy(found)


def whole_numbers(draws: Draws, below: int, *shape: int) -> np.ndarray:
    """(N, *shape) uint16 numbers from 0 to below - 1."""
    return np.stack([draw.integers(0, below, shape, np.uint16) for draw in draws])
