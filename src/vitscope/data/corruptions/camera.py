"""What a camera does: noise of its sensor, and blur by its lens, a pane of frosted glass, or motion.

gaussian_noise    x + N(0, c)
shot_noise        Poisson(c x) / c: a white pixel counts c photons
impulse_noise     a share c of the values becomes 0 or 1, either as often
defocus_blur      convolution with a disk
glass_blur        a small Gaussian, pixels replaced by near ones at random, the Gaussian again
motion_blur       half a Gaussian along a line, of an angle between -45 and 45 degrees
zoom_blur         mean of the picture and of enlarged ones
"""

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from vitscope.data.corruptions import filters
from vitscope.data.corruptions.filters import Draws, normals, to_bytes, to_unit, uniforms, whole_numbers

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


def defocus_blur(images: Tensor, draws: Draws, radius: float, softness: float) -> Tensor:
    """Out of focus: each point becomes a disk."""
    return to_bytes(filters.correlate(to_unit(images), filters.disk(radius, softness)))


def glass_blur(images: Tensor, draws: Draws, sigma: float, reach: float, rounds: float) -> Tensor:
    """Behind glass: each pixel shows one of its neighbours."""
    soft = to_bytes(filters.gaussian_blur(to_unit(images), sigma))
    for _ in range(round(rounds)):
        soft = _displaced(soft, draws, round(reach))
    return to_bytes(filters.gaussian_blur(to_unit(soft), sigma))


def motion_blur(images: Tensor, draws: Draws, radius: float, sigma: float) -> Tensor:
    """The camera moved while the shutter was open."""
    angles = (90.0 * uniforms(draws, 1)[:, 0] - 45.0).tolist()
    return to_bytes(filters.motion_blur(to_unit(images), round(radius), sigma, angles))


def zoom_blur(images: Tensor, draws: Draws, end: float, step: float) -> Tensor:
    """The camera moved towards the scene while the shutter was open."""
    pixels = to_unit(images)
    factors = np.arange(1.0, end, step).tolist()
    total = pixels.clone()
    for factor in factors:
        total += filters.zoomed(pixels, factor)
    return to_bytes(total.div_(len(factors) + 1))


def _displaced(images: Tensor, draws: Draws, reach: int) -> Tensor:
    """Each inner pixel takes the value of one up to `reach` away.

    The published code visits pixels from the last to the first and takes a neighbour's present value: where that
    one has been visited before, the value that it took. Here the place that a value comes from is found for all pixels
    at once: a place that was visited leads on to the place that it took its own value from, until none is left.
    """
    n, channels, height, width = images.shape
    taken = np.arange(height * width, dtype=np.int64).reshape(1, height, width).repeat(n, 0)
    inner = (slice(None), slice(reach + 1, height - reach + 1), slice(reach + 1, width - reach + 1))
    down, right = whole_numbers(draws, 2 * reach, 2, *taken[inner].shape[1:]).astype(np.int64).swapaxes(0, 1)
    taken[inner] += (down - reach) * width + (right - reach)
    visited = np.zeros((height, width), bool)
    visited[inner[1:]] = True
    source = taken.reshape(n, -1)
    here = np.arange(height * width)
    leads_on = (source > here) & visited.reshape(-1)[source]
    row, place = np.nonzero(leads_on)
    while len(row):
        following = source[row, place]
        goes_on = leads_on[row, following]
        source[row, place] = source[row, following]
        leads_on[row, place] = goes_on
        row, place = row[goes_on], place[goes_on]
    flat = torch.from_numpy(source)[:, None].expand(n, channels, -1)
    return images.reshape(n, channels, -1).gather(2, flat).reshape(images.shape)
