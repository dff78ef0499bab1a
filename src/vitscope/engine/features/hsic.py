"""How alike two representations see a batch of images: the unbiased Hilbert-Schmidt independence criterion.

With X (n, p) what one unit gives for n images, K = X X^T without its diagonal, r its row sums and s their sum, and
L, r', s' the same of another unit, the estimator of Song et al. (2012) is

    HSIC(K, L) = [ <K, L> - 2 r.r' / (n - 2) + s s' / ((n - 1) (n - 2)) ] / (n (n - 3)),    n >= 4

so that every unit is summed up once, and matrix products give all pairs. It does not change if X is shifted;
therefore the mean over images is taken off first, which keeps the digits that matter.
"""

import torch
from torch import Tensor

LEAST_IMAGES = 4  # in a batch: HSIC divides by n - 3
CHUNK = 1 << 17  # numbers that are centred at once: few enough to stay in a cache
PIECE = 1 << 12  # of an image at most: a float32 sum of so many is off by 2.5e-4 of its terms on no machine


def gram(feature: Tensor) -> Tensor:
    """(N, N), symmetric: inner products of the maps (N, C, H, W) of N images, less their mean over images; float32."""
    # The order of the numbers of an image does not matter, so that of memory is taken: nothing is copied.
    last = feature.shape[1] > 1 and feature.stride(1) == 1
    flat = (feature.permute(0, 2, 3, 1) if last else feature).flatten(1)
    total = torch.zeros(len(flat), len(flat), device=flat.device)
    for piece in flat.split(max(1, min(PIECE, CHUNK // len(flat))), dim=1):
        numbers = piece.float()
        centred = numbers - numbers.mean(0)
        total += centred @ centred.T
    return (total + total.T) / 2  # a matrix product need not add up both halves in the same order


def hsic_of_pairs(grams: Tensor) -> Tensor:
    """(units, units): HSIC of every pair of the Gram matrices (units, N, N), in float64."""
    n = grams.shape[-1]
    off = grams.to(torch.float64, copy=True)
    off.diagonal(dim1=1, dim2=2).zero_()
    rows, flat = off.sum(2), off.flatten(1)
    total = rows.sum(1)
    means = torch.outer(total, total) / ((n - 1) * (n - 2)) - rows @ rows.T * (2 / (n - 2))
    return (flat @ flat.T + means) / (n * (n - 3))
