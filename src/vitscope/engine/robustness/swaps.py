"""Pictures made of two: low frequencies of one with high ones of another, or one's phase with the other's amplitude.

    bands    x = F^-1(F(a) * L + F(b) * (1 - L))             L = 1 where |f| < cutoff, else 0
    phase    x = F^-1(|F(b)| exp(i arg F(a)))

The cut is sharp. Channels are swapped each on its own. What lies beyond pi, in the corners of the plane, is high. Of a
picture and itself both give the picture.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from vitscope.engine.robustness.frequencies import below


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
