"""Pictures made of two: low frequencies of one with high ones of another, or one's phase with the other's amplitude.

    bands    x = F^-1(F(a) * L + F(b) * (1 - L))             L = 1 where |f| < cutoff, else 0
    phase    x = F^-1(|F(b)| exp(i arg F(a)))

The cut is sharp. Channels are swapped each on its own. What lies beyond pi, in the corners of the plane, is high. Of a
picture and itself both give the picture.

Radius and band of every frequency of a picture, in the layout of `torch.fft.rfft2`.

    |f| = sqrt(f_y^2 + f_x^2)        f_y, f_x from -pi to pi, in radians per pixel

Only half of the plane is kept. A mask that depends on |f| alone is the same at f and at -f, so what it leaves of a real
picture is a real picture.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def swap_bands(low: Tensor, high: Tensor, cutoff: float) -> Tensor:
    """Pictures (N, C, H, W): frequencies of `low` below the cutoff, in units of pi, and of `high` above it."""
    size = (low.shape[2], low.shape[3])
    kept = below(*size, cutoff).to(low)
    return torch.fft.irfft2(torch.fft.rfft2(high) + torch.fft.rfft2(low - high) * kept, s=size)


def swap_phase(phase: Tensor, amplitude: Tensor) -> Tensor:
    """Pictures (N, C, H, W) with the phases of one and the amplitudes of the other."""
    size = (phase.shape[2], phase.shape[3])
    spectrum = torch.polar(torch.fft.rfft2(amplitude).abs(), torch.fft.rfft2(phase).angle())
    return torch.fft.irfft2(spectrum, s=size)


def pairs(labels: Sequence[int]) -> list[tuple[int, int]]:
    """Places of images that make pairs of different classes, no image in two of them.

    Each image is paired with the first one before it that is still single and of another class. The singles left over
    are all of one class.
    """
    waiting: list[int] = []  # all of one class
    found = []
    for place, label in enumerate(labels):
        if waiting and labels[waiting[0]] != label:
            found.append((waiting.pop(0), place))
        else:
            waiting.append(place)
    return found


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
