"""Classifiers whose answers about changed pictures can be worked out by hand; pixels are used as they are."""

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
