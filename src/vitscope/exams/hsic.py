"""How alike two representations see a batch of images: the unbiased Hilbert-Schmidt independence criterion.

With X (n, p) what one unit gives for n images and K = X X^T, a pair of units has

    HSIC(K, L) = <U(K), U(L)> / (n (n - 3)),    n >= 4
    U(K)_ij    = K_ij - r_i / (n - 2) - r_j / (n - 2) + s / ((n - 1) (n - 2))    for i != j, and 0 for i = j

where r are the row sums of K without its diagonal and s is their sum. That is the estimator of Song et al.
(2012), tr(KL) + 1'K1 1'L1 / ((n - 1)(n - 2)) - 2 1'KL1 / (n - 2) over n (n - 3), written as an inner product:
every unit is centred once, and one matrix product gives all pairs. It does not change if X is shifted, so the
mean over images is taken off first, which keeps the digits that matter.
"""

import torch
from torch import Tensor

LEAST_IMAGES = 4  # in a batch: HSIC divides by n - 3
CHUNK = 1 << 21  # numbers that are centred at once: a map of the whole batch need not be copied as a whole


def gram(feature: Tensor) -> Tensor:
    """(N, N): inner products of the maps (N, C, H, W) of N images, less their mean over images, in float32."""
    # The order of the numbers of an image does not matter, so that of memory is taken: nothing is copied.
    last = feature.shape[1] > 1 and feature.stride(1) == 1
    flat = (feature.permute(0, 2, 3, 1) if last else feature).flatten(1)
    total = torch.zeros(len(flat), len(flat), device=flat.device)
    for piece in flat.split(max(1, CHUNK // len(flat)), dim=1):
        numbers = piece.float()
        centred = numbers - numbers.mean(0)
        total.addmm_(centred, centred.T)
    return total


def u_centred(grams: Tensor) -> Tensor:
    """U(K) of each Gram matrix (..., N, N), in float64."""
    n = grams.shape[-1]
    off = grams.double().clone()
    off.diagonal(dim1=-2, dim2=-1).zero_()
    rows = off.sum(-1, keepdim=True)
    off -= (rows + rows.transpose(-2, -1)) / (n - 2)
    off += rows.sum(-2, keepdim=True) / ((n - 1) * (n - 2))
    off.diagonal(dim1=-2, dim2=-1).zero_()
    return off


def hsic_of_pairs(grams: Tensor) -> Tensor:
    """(units, units): HSIC of every pair of the Gram matrices (units, N, N)."""
    n = grams.shape[-1]
    flat = u_centred(grams).flatten(1)
    return flat @ flat.T / (n * (n - 3))
