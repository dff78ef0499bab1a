"""Attacks in pixel space: small changes of a picture that raise the loss.

    FGSM    x' = P(x + eps sign(g))                     g = d loss / d x at x
    PGD     x_0 = P(x + eps u),  u uniform in [-1, 1]   x_{t+1} = P(x_t + step sign(d loss / d x at x_t))

P puts every pixel back into [x - eps, x + eps] and into 0 .. 1. A pixel of x that lies outside 0 .. 1 already, by
rounding or because x is no picture, bounds itself: without an attack nothing changes.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def project(moved: Tensor, pixels: Tensor, eps: float) -> Tensor:
    """The picture nearest to `moved` that is within eps of `pixels` and a picture."""
    low = torch.maximum(pixels - eps, pixels.clamp(max=0.0))
    high = torch.minimum(pixels + eps, pixels.clamp(min=1.0))
    return moved.clamp(low, high)


def fgsm(pixels: Tensor, gradient: Tensor, eps: float) -> Tensor:
    """One step of size eps along the sign of the gradient."""
    return project(pixels + eps * gradient.sign(), pixels, eps)


def pgd(
    pixels: Tensor,
    gradient_at: Callable[[Tensor], Tensor],
    eps: float,
    steps: int,
    step: float,
    start: Tensor,
) -> Tensor:
    """Steps of size `step` along the sign of the gradient, from a random picture near by.

    Args:
        pixels: (N, C, H, W).
        gradient_at: The gradient of the loss at pictures.
        eps: How far each pixel may move.
        steps: How many steps.
        step: Size of each.
        start: (N, C, H, W), numbers in [-1, 1]: where in the ball to begin.
    """
    moved = project(pixels + eps * start, pixels, eps)
    for _ in range(steps):
        moved = project(moved + step * gradient_at(moved).sign(), pixels, eps)
    return moved
