"""GELU, y = x Φ(x), with its derivatives kept:  y' = Φ + x φ,  y'' = φ (2 - x²).

They do not change from product to product, which is left with three multiplications.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """`torch.nn.functional.gelu`; its tanh form is torch's own."""
    if approximate != "none":
        return F.gelu(input, approximate=approximate)
    return _Gelu.apply(input)


def _density(x: Tensor) -> Tensor:
    return x.square().mul_(-0.5).exp_().mul_(1.0 / math.sqrt(2.0 * math.pi))


class _Gelu(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        slope = torch.erf(x * math.sqrt(0.5)).add_(1.0).mul_(0.5).addcmul_(x, _density(x))
        ctx.save_for_backward(slope)
        ctx.x = x
        return F.gelu(x)

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> Any:
        (slope,) = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return gy * slope
        x, ctx.x = ctx.x, None  # products need the derivatives only
        return _GeluBackward.apply(gy, x, slope)


class _GeluBackward(Function):
    @staticmethod
    def forward(ctx: Any, gy: Tensor, x: Tensor, slope: Tensor) -> Tensor:
        bend = (2.0 - x.square()).mul_(_density(x)).mul_(gy)  # gy y''
        ctx.save_for_backward(slope, bend)
        return gy * slope

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, a: Tensor) -> Any:
        slope, bend = ctx.saved_tensors
        return a * slope, a * bend, None
