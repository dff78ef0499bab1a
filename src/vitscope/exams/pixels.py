"""Between what a model is shown and the picture it stands for.

    pixel = input * std + mean        in 0 .. 1, per channel

Noise, occlusions and attacks are defined on pictures, so exams change pixels and turn them back into inputs.
"""

import torch
from torch import Tensor

from vitscope.data import DataConfig


class PixelSpace:
    """The two ways for one data configuration; both keep gradients."""

    def __init__(self, config: DataConfig) -> None:
        self._mean = torch.tensor(config.mean, dtype=torch.float64)[:, None, None]
        self._std = torch.tensor(config.std, dtype=torch.float64)[:, None, None]

    def to_pixels(self, images: Tensor) -> Tensor:
        """Pictures (N, C, H, W), from 0 to 1 but for rounding."""
        return images * self._std.to(images) + self._mean.to(images)

    def to_input(self, pixels: Tensor) -> Tensor:
        """What the model is shown for these pictures."""
        return (pixels - self._mean.to(pixels)) / self._std.to(pixels)
