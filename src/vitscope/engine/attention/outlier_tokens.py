"""Tokens that are far longer than the rest of their image's, and what lies under them.

With m the median of the norms that are not 0, an outlier has a norm of more than FACTOR m.
"""

import math

import torch
from torch import Tensor, nn

FACTOR = 4.0  # the artefacts that registers cure are at 5 to 10 times the median, other tokens stay below 3


def norms_of(feature: Tensor) -> Tensor:
    """(N, points): the norm of every point of maps (N, C, H, W)."""
    return torch.linalg.vector_norm(feature.flatten(2).float(), dim=1)


def medians_of(norms: Tensor) -> Tensor:
    """(N,): the median of the norms (N, points) that are not 0; infinite where all are."""
    known = torch.where(norms > 0, norms, torch.nan)
    return torch.nan_to_num(torch.nanquantile(known, 0.5, dim=1), nan=torch.inf)


def outliers_of(norms: Tensor, factor: float = FACTOR) -> Tensor:
    """(N, points), 1 for the tokens that are outliers among those of their image."""
    return (norms > factor * medians_of(norms)[:, None]).to(norms)


def border(grid: tuple[int, int]) -> Tensor:
    """(points,): 1 in the outermost rows and columns."""
    found = torch.ones(grid, dtype=torch.float64)
    found[1:-1, 1:-1] = 0.0
    return found.flatten()


def patch_contrast(images: Tensor, grid: tuple[int, int]) -> Tensor:
    """(N, points): the standard deviation of the pixels under each point, divided by its mean over the image's points.

    It is 1 everywhere on a plain image, and NaN where a point is a single pixel.
    """
    if any(side <= cells for side, cells in zip(images.shape[2:], grid, strict=True)):
        return torch.full((len(images), math.prod(grid)), torch.nan)
    pixels = images.float()
    pixels = pixels - pixels.mean((2, 3), keepdim=True)
    mean, square = (nn.functional.adaptive_avg_pool2d(x, grid).flatten(2) for x in (pixels, pixels.square()))
    deviation = (square - mean.square()).mean(1).clamp(min=0).sqrt()
    level = deviation.mean(1, keepdim=True)
    return torch.where(level > 0, deviation / level, 1.0)
