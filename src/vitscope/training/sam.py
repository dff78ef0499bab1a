"""Sharpness-aware minimisation: learn from the gradient at the worst place nearby.

    w' = w + rho * g / ||g||,   g = gradient of the batch's loss at w;   then step from w by the gradient at w'

Both gradients are those of the whole effective batch, with the same augmentation, mixing and dropout.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def worst_nearby(model: nn.Module, rho: float, norm: float) -> Iterator[None]:
    """Inside, the parameters stand `rho` up their gradients, of this `norm` all together, which are cleared.

    At the end, parameters and buffers are bit for bit as before: running statistics do not see the second pass.
    """
    moved: list[Tensor] = [p for p in model.parameters() if p.grad is not None]
    gradients = [p.grad for p in moved if p.grad is not None]
    with torch.no_grad():
        kept = [(tensor, tensor.clone()) for tensor in (*moved, *model.buffers())]
    try:
        if norm > 0:
            with torch.no_grad():
                torch._foreach_add_(moved, gradients, alpha=rho / norm)
        for parameter in moved:
            parameter.grad = None
        yield
    finally:
        with torch.no_grad():
            for tensor, before in kept:
                tensor.copy_(before)
