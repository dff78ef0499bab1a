"""Classifiers whose answers about changed pictures can be worked out by hand; pixels are used as they are."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn


class Plain(nn.Module):
    """Takes pixels without a shift or a scale, as its data configuration says."""

    def __init__(self, side: int, classes: int = 2) -> None:
        super().__init__()
        size = (3, side, side)
        self.pretrained_cfg = {"input_size": size, "mean": (0.0,) * 3, "std": (1.0,) * 3, "crop_pct": 1.0}
        self.num_classes = classes


class LinearClassifier(Plain):
    """Two classes; logits are +-(w x + b) / 2, so that the margin of class 1 is w x + b."""

    def __init__(self, side: int = 4, seed: int = 0) -> None:
        super().__init__(side)
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(3 * side * side, generator=generator))
        self.bias = nn.Parameter(-self.weight.detach().sum() / 2)

    def margin(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight + self.bias

    def forward(self, images: Tensor) -> Tensor:
        half = self.margin(images) / 2
        return torch.stack([-half, half], 1)


class BandDetector(Plain):
    """Says 1 if a picture has power where low <= |f| / pi < high, found by plain sums of waves, else 0."""

    def __init__(self, side: int, low: float, high: float) -> None:
        super().__init__(side)
        self.threshold = nn.Parameter(torch.tensor(1e-3))
        place = torch.arange(side, dtype=torch.float64)
        waves = []
        for k in range(-(side // 2), side // 2):
            for j in range(-(side // 2), side // 2):
                if low <= (2 / side) * (k * k + j * j) ** 0.5 < high:
                    waves.append(torch.exp(-2j * torch.pi * (k * place[:, None] + j * place) / side))
        self.register_buffer("waves", torch.stack(waves))

    def forward(self, images: Tensor) -> Tensor:
        amplitude = torch.einsum("nchw,fhw->ncf", images.to(self.waves.dtype), self.waves)
        power = amplitude.abs().square().mean((1, 2)).float()
        return torch.stack([self.threshold - power, power - self.threshold], 1)


class Rounding(LinearClassifier):
    """Rounds its picture, through which no gradient passes."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images.detach().mul(255).round() / 255)


def pictures(n: int, side: int = 4, seed: int = 1, inside: float = 0.3) -> Tensor:
    """(n, 3, side, side) with pixels between `inside` and 1 - `inside`."""
    generator = torch.Generator().manual_seed(seed)
    return inside + (1 - 2 * inside) * torch.rand(n, 3, side, side, generator=generator)


class HomeMade(nn.Module):
    """A random convolutional classifier that says nothing about its images: no configuration, no number of classes."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(channels)
            self.layers = nn.Sequential(
                nn.Conv2d(channels, 12, 5, stride=2), nn.GELU(), nn.Flatten(), nn.Linear(12 * 6 * 6, 4)
            )

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.layers(images)
        return scores


@dataclass(frozen=True)
class Numbers:
    """Pictures of 16 pixels that somebody has normalised, and what a model says about changed ones, in float64."""

    channels: int
    mean: float | tuple[float, ...]
    std: float | tuple[float, ...]

    @property
    def model(self) -> HomeMade:
        return HomeMade(self.channels)

    @property
    def pixels(self) -> Tensor:
        generator = torch.Generator().manual_seed(5)
        return torch.rand(80, self.channels, 16, 16, generator=generator, dtype=torch.float64)

    @property
    def labels(self) -> Tensor:
        """The classes that the model finds, but for some."""
        found = self.logits(self.pixels).argmax(1)
        return torch.where(torch.arange(80) % 10 == 0, (found + 1) % 4, found)

    @property
    def data(self) -> tuple[Tensor, Tensor]:
        return self.shown(self.pixels).float(), self.labels

    def shown(self, pixels: Tensor) -> Tensor:
        mean, std = (torch.tensor(numbers).double().view(-1, 1, 1) for numbers in (self.mean, self.std))
        return (pixels - mean) / std

    def logits(self, pixels: Tensor) -> Tensor:
        return self.model.double()(self.shown(pixels))

    def accuracy(self, pixels: Tensor) -> float:
        return float((self.logits(pixels).argmax(1) == self.labels).double().mean())


NUMBERS = [
    pytest.param(Numbers(3, 0.0, 1.0), id="plain"),
    pytest.param(Numbers(3, (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)), id="normalised"),
    pytest.param(Numbers(1, 0.0, 1.0), id="plain grey"),
    pytest.param(Numbers(1, 0.3, 0.35), id="grey"),
    pytest.param(Numbers(4, (0.5, 0.4, 0.3, 0.6), (0.2, 0.25, 0.3, 0.35)), id="four channels"),
]


class Contrast(Plain):
    """Says 1 if the picture's deviation is above a quarter, else 0."""

    def __init__(self) -> None:
        super().__init__(16)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        above = self.scale * (images.flatten(1).std(1) - 0.25)
        return torch.stack([-above, above], 1)
