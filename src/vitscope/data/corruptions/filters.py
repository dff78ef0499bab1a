"""What several corruptions are made of: bytes and numbers, Gaussian and other blurs, motion, zoom, random draws.

Pictures are (N, C, H, W); bytes from 0 to 255, or float32 numbers from 0 to 1. Random numbers belong to an image:
whatever batch, order or process it is corrupted in, they are the same.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

Border = Literal["edge", "mirror"]  # a a | a b c | c c, and b a | a b c | c b
_ROUNDING = 1e-3  # of a grey level: what float32 may fall short of a whole one
_FFT_STEP = 16  # sides that are multiples of it have fast Fourier transforms


def to_unit(images: Tensor) -> Tensor:
    """Bytes as numbers from 0 to 1."""
    return images.float().div_(255.0)


def to_bytes(pixels: Tensor) -> Tensor:
    """Numbers from 0 to 1 as bytes; what lies outside is clipped, and what is left is cut off, as published."""
    return (pixels * 255.0).add_(_ROUNDING).clamp_(0.0, 255.0).to(torch.uint8)


def gaussian_blur(pixels: Tensor, sigma: float, truncate: float = 4.0, border: Border = "edge") -> Tensor:
    """Blur (..., H, W) with a Gaussian that ends after `truncate` deviations."""
    rows, columns = (_gaussian(side, sigma, truncate, border).to(pixels) for side in pixels.shape[-2:])
    return (rows @ pixels) @ columns.T


@lru_cache(maxsize=64)
def _gaussian(side: int, sigma: float, truncate: float, border: Border) -> Tensor:
    """The blur of a line of `side` pixels as a matrix."""
    radius = int(truncate * sigma + 0.5)
    offsets = np.arange(-radius, radius + 1)
    weights = np.exp(-0.5 * (offsets / sigma) ** 2)
    places = np.arange(side)[:, None] + offsets
    if border == "edge":
        places = places.clip(0, side - 1)
    else:
        places = places % (2 * side)
        places = np.minimum(places, 2 * side - 1 - places)
    matrix = np.zeros((side, side))
    np.add.at(matrix, (np.arange(side)[:, None], places), weights / weights.sum())
    return torch.from_numpy(matrix).float()


@lru_cache(maxsize=16)
def disk(radius: float, softness: float) -> Tensor:
    """A disk whose rim is softened by a small Gaussian: the picture of a point that is out of focus."""
    reach = 8 if radius <= 8 else round(radius)
    line = np.arange(-reach, reach + 1)
    filled = (line[:, None] ** 2 + line**2 <= radius**2).astype(np.float64)
    half = 1 if radius <= 8 else 2
    rim = np.exp(-0.5 * (np.arange(-half, half + 1) / softness) ** 2)
    rim /= rim.sum()
    wide = np.pad(filled / filled.sum(), half, mode="reflect")
    side = len(line)
    wide = sum(weight * wide[i : i + side] for i, weight in enumerate(rim))
    soft = sum(weight * wide[:, i : i + side] for i, weight in enumerate(rim))
    used = np.flatnonzero(soft.any(0))  # symmetric, so the same for rows
    return torch.from_numpy(soft[used[0] : used[-1] + 1, used[0] : used[-1] + 1]).float()


def correlate(pixels: Tensor, kernel: Tensor) -> Tensor:
    """Every pixel becomes the sum of its neighbourhood weighted by the kernel; beyond the border it is mirrored."""
    height, width = pixels.shape[-2:]
    reach = len(kernel) // 2
    wide = F.pad(pixels, (reach,) * 4, mode="reflect")
    size = [-(-side // _FFT_STEP) * _FFT_STEP for side in wide.shape[-2:]]
    product = torch.fft.rfft2(wide, s=size).mul_(torch.fft.rfft2(kernel, s=size).conj())
    return torch.fft.irfft2(product, s=size)[..., :height, :width]


def motion_blur(pixels: Tensor, radius: int, sigma: float, angles: Sequence[float]) -> Tensor:
    """Each picture smeared along its own angle (degrees), half a Gaussian wide; edges go on beyond the border."""
    height, width = pixels.shape[-2:]
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-0.5 * (steps / sigma) ** 2)
    weights /= weights.sum()
    reach = 2 * radius
    wide = F.pad(pixels, (reach,) * 4, mode="replicate")
    blurred = torch.zeros_like(pixels)
    for picture, source, angle in zip(blurred, wide, angles, strict=True):
        down, right = (
            np.ceil(steps * f(math.radians(angle)) - 0.5).astype(int) + reach for f in (math.sin, math.cos)
        )
        for y, x, weight in zip(down.tolist(), right.tolist(), weights.tolist(), strict=True):
            picture.add_(source[:, y : y + height, x : x + width], alpha=weight)
    return blurred


def zoomed(pixels: Tensor, factor: float) -> Tensor:
    """The middle of (N, C, H, W), enlarged bilinearly to the size of the whole."""
    height, width = pixels.shape[-2:]
    inner = [math.ceil(side / factor) for side in (height, width)]
    top, left = (height - inner[0]) // 2, (width - inner[1]) // 2
    middle = pixels[..., top : top + inner[0], left : left + inner[1]]
    size = [round(side * factor) for side in inner]
    large = F.interpolate(middle, size=size, mode="bilinear", align_corners=True)
    top, left = (size[0] - height) // 2, (size[1] - width) // 2
    return large[..., top : top + height, left : left + width]


Draws = Sequence[np.random.Generator]  # one per image of a batch


def draws_for(seed: int, indices: Iterable[int], *purpose: int) -> list[np.random.Generator]:
    """The generators of the images at these places of the data; other purposes have other numbers."""
    return [np.random.Generator(np.random.SFC64((seed % 2**64, int(index), *purpose))) for index in indices]


def normals(draws: Draws, *shape: int) -> Tensor:
    """(N, *shape) float32 numbers of mean 0 and deviation 1."""
    return torch.from_numpy(np.stack([draw.standard_normal(shape, np.float32) for draw in draws]))


def uniforms(draws: Draws, *shape: int) -> Tensor:
    """(N, *shape) float32 numbers from 0 to 1."""
    return torch.from_numpy(np.stack([draw.random(shape, np.float32) for draw in draws]))


def whole_numbers(draws: Draws, below: int, *shape: int) -> np.ndarray:
    """(N, *shape) uint16 numbers from 0 to below - 1."""
    return np.stack([draw.integers(0, below, shape, np.uint16) for draw in draws])
