"""Noise: every value of a picture is changed on its own.

gaussian_noise    x + N(0, c)
shot_noise        Poisson(c x) / c: a white pixel counts c photons
impulse_noise     a share c of the values becomes 0 or 1, either as often
"""

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from vitscope.data.corruptions.filters import Draws, normals, to_bytes, to_unit, whole_numbers

_LEVELS = 2**16  # probabilities are multiples of 1 / _LEVELS


def gaussian_noise(images: Tensor, draws: Draws, deviation: float) -> Tensor:
    """Add normal noise; `deviation` is relative to white."""
    return to_bytes(normals(draws, *images.shape[1:]).mul_(deviation).add_(to_unit(images)))


def shot_noise(images: Tensor, draws: Draws, photons: float) -> Tensor:
    """Count photons; `photons` is the mean count of a white pixel."""
    places = images.numpy().astype(np.uint32) * np.uint32(_LEVELS)
    places += whole_numbers(draws, _LEVELS, *images.shape[1:])
    return torch.from_numpy(_counted(photons)[places])


def impulse_noise(images: Tensor, draws: Draws, amount: float) -> Tensor:
    """Set a share `amount` of the values to black or white."""
    drawn = whole_numbers(draws, _LEVELS, *images.shape[1:])
    found = images.numpy().copy()
    found[drawn < round(amount * _LEVELS)] = 0
    found[drawn < round(amount * _LEVELS / 2)] = 255
    return torch.from_numpy(found)


@lru_cache(maxsize=2)
def _counted(photons: float) -> np.ndarray:
    """For each byte in turn, `_LEVELS` equally likely values of the byte that is counted in its place.

    The inverse of Poisson's distribution function, tabulated: a draw is then one look-up.
    """
    most = math.ceil(photons + 9 * math.sqrt(photons) + 20)
    counts = np.arange(most + 1)
    seen = np.minimum(counts / photons * 255.0 + 1e-9, 255.0).astype(np.uint8)
    log_factorial = np.array([math.lgamma(count + 1) for count in counts])
    table = np.empty((256, _LEVELS), np.uint8)
    table[0] = 0
    for level in range(1, 256):
        mean = photons * level / 255.0
        likely = np.exp(counts * math.log(mean) - mean - log_factorial).cumsum()
        ends = np.rint(likely / likely[-1] * _LEVELS).astype(np.int64)
        table[level] = np.repeat(seen, np.diff(ends, prepend=0))
    return table.reshape(-1)
