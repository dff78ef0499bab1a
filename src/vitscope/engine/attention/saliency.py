"""Which patches of a picture does a model's decision hang on?

    s_p = sum over pixels and channels of patch p of |g (x - fill)|        g = d logit_c / d x,  c the predicted class

To first order, g (x - fill) is what the score of the predicted class loses when that pixel is masked. No label is
used, and nothing is known of the model but its gradient. Patches make a grid of `side` x `side`, as equal as pixels
allow.
"""

import numpy as np
import torch
from torch import Tensor

from vitscope.engine.image_draws import PATCHES, image_generators
from vitscope.engine.robustness.pixels import PixelModel, Score


def patch_numbers(height: int, width: int, side: int) -> Tensor:
    """(H, W): to which of the side x side patches each pixel belongs."""
    rows, columns = torch.arange(height) * side // height, torch.arange(width) * side // width
    return rows[:, None] * side + columns[None, :]


def patch_saliency(
    seen: PixelModel, pixels: Tensor, score: Score, fill: Tensor, number: Tensor, patches: int
) -> Tensor:
    """(N, patches): how much a score hangs on each patch.

    Args:
        seen: The model.
        pixels: (N, C, H, W).
        score: From logits (N, classes) to (N,), such as the largest logit: that of the predicted class.
        fill: What stands in masked places, (1, C, 1, 1).
        number: Which patch each pixel belongs to, (H, W).
        patches: How many there are.
    """
    gradient = seen.gradient(pixels, score)
    effect = (gradient * (pixels - fill)).abs().sum(1).flatten(1)
    total = torch.zeros(len(pixels), patches, dtype=effect.dtype, device=effect.device)
    return total.index_add_(1, number.flatten().to(effect.device), effect)


def random_ranks(seed: int, indices: Tensor, patches: int) -> Tensor:
    """(N, patches): a random order for each image, as the rank of every patch."""
    orders = [g.permutation(patches) for g in image_generators(PATCHES, seed, indices)]
    return torch.from_numpy(np.stack(orders))


def ranks(saliency: Tensor) -> Tensor:
    """(N, patches): 0 for the most salient patch of an image; equal ones in the order of their numbers."""
    return saliency.argsort(dim=1, descending=True, stable=True).argsort(1)
