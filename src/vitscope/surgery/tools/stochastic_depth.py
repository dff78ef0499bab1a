"""The stochastic depth of a block, found by what its modules do: names differ from library to library.

A module that drops whole images with probability p and scales the others by 1 / (1 - p) gives, for a batch of ones in
training mode, images of zeros and images of 1 / (1 - p), and nothing else.
"""

import copy

import torch
from torch import nn

_PROBE = (256, 8, 4, 4)  # images, channels, height, width


def drop_probability(block: nn.Module) -> float:
    """The largest stochastic depth in a block, 0 where it has none."""
    leaves = [m for m in block.modules() if not [*m.children(), *m.parameters(), *m.buffers()]]
    return max((_probability(leaf) for leaf in leaves), default=0.0)


def _probability(leaf: nn.Module) -> float:
    probe = torch.ones(_PROBE, dtype=torch.float64)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        try:
            seen = copy.deepcopy(leaf).train()(probe)
        except Exception:  # it wants another input, so it is no step of a residual branch
            return 0.0
    if not isinstance(seen, torch.Tensor) or seen.shape != probe.shape:
        return 0.0
    images = seen.flatten(1)
    scale = float(images.max())
    whole = bool((images == images[:, :1]).all()) and bool(((images == 0) | (images == scale)).all())
    if not whole or scale <= 1:
        return 0.0
    return round(1 - 1 / scale, 6)
