"""Radius and band of every frequency of a picture, in the layout of `torch.fft.rfft2`.

    |f| = sqrt(f_y^2 + f_x^2)        f_y, f_x from -pi to pi, in radians per pixel

Only half of the plane is kept. A mask that depends on |f| alone is the same at f and at -f, so what it leaves of a real
picture is a real picture.
"""

import torch
from torch import Tensor

_ROUNDING = 1e-9  # a frequency on an edge belongs to the band above it, whatever way its radius was rounded


def radius(height: int, width: int) -> Tensor:
    """(H, W // 2 + 1): |f| in units of pi; sqrt(2) in the corners of the plane."""
    rows = 2 * torch.fft.fftfreq(height, dtype=torch.float64)
    columns = 2 * torch.fft.rfftfreq(width, dtype=torch.float64)
    return torch.hypot(rows[:, None], columns[None, :])


def band_numbers(height: int, width: int, bands: int) -> Tensor:
    """(H, W // 2 + 1): band k holds k / bands <= |f| / pi < (k + 1) / bands, the last one also pi itself.

    What lies beyond pi, in the corners, belongs to no band: -1.
    """
    distance = radius(height, width)
    number = (distance * bands + _ROUNDING).long()
    number[(number == bands) & (distance <= 1 + _ROUNDING)] = bands - 1
    number[number >= bands] = -1
    return number


def below(height: int, width: int, cutoff: float) -> Tensor:
    """(H, W // 2 + 1): 1.0 where |f| < cutoff, in units of pi, else 0.0."""
    return (radius(height, width) < cutoff - _ROUNDING).double()
