"""Normalisations.

A batch norm in evaluation mode is y = s x + t per channel:

    gx = s gy,   gs = Σ x gy,   gt = Σ gy;      along (a, b, c):   d gy = s a + b x + c,   d x = b gy,   d s = Σ a gy

A layer norm is y = γ x̂ + β, x̂ = r (x - mean), r = 1/std. With u = γ gy, m the mean over the normalised entries and
P u = u - m(u) - x̂ m(u x̂),

    gx = r P u,   gγ = Σ x̂ gy,   gβ = Σ gy;     along (a, b, c):   d gy = γ r P a + b x̂ + c,   d γ = Σ r gy P a,
    d x = r P v - x̂ r² m(u P a)   with   v = b gy - r (a m(u x̂) + u m(a x̂))
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from vitscope.curvature.double_backward.convolution import total


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`torch.nn.functional.batch_norm`; with the batch's own statistics it is torch's own."""
    if training or running_mean is None or running_var is None:
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    scale = torch.rsqrt(running_var + eps)
    scale = scale if weight is None else scale * weight
    shift = -running_mean * scale
    shift = shift if bias is None else shift + bias
    return _Affine.apply(input, scale, shift)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """`torch.nn.functional.layer_norm`; over several axes, or without weight and bias, it is torch's own."""
    if len(normalized_shape) != 1 or weight is None or bias is None:
        return F.layer_norm(input, tuple(normalized_shape), weight, bias, eps)
    return _LayerNorm.apply(input, weight, bias, eps)


def _per_channel(vector: Tensor, like: Tensor) -> Tensor:
    return vector.view(-1, *[1] * (like.ndim - 2))


def _over_channels(x: Tensor) -> Tensor:
    return x.sum([0, *range(2, x.ndim)])


class _Affine(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        ctx.save_for_backward(x, scale)
        return torch.addcmul(_per_channel(shift, x), x, _per_channel(scale, x))

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> Any:
        return _AffineBackward.apply(gy, *ctx.saved_tensors, tuple(ctx.needs_input_grad))


class _AffineBackward(Function):
    @staticmethod
    def forward(ctx: Any, gy: Tensor, x: Tensor, scale: Tensor, wanted: tuple[bool, bool, bool]) -> Any:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(gy, x, scale)
        gx = gy * _per_channel(scale, x) if wanted[0] else None
        return gx, _over_channels(gy * x) if wanted[1] else None, _over_channels(gy) if wanted[2] else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, a: Tensor | None, b: Tensor | None, c: Tensor | None) -> Any:
        gy, x, scale = ctx.saved_tensors
        new_gy = total(
            a * _per_channel(scale, x) if a is not None else None,
            x * _per_channel(b, x) if b is not None else None,
            _per_channel(c, x).expand_as(gy) if c is not None else None,
        )
        new_x = gy * _per_channel(b, x) if b is not None and ctx.needs_input_grad[1] else None
        new_scale = _over_channels(a * gy) if a is not None and ctx.needs_input_grad[2] else None
        return new_gy, new_x, new_scale, None


class _LayerNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
        y, mean, r = torch.native_layer_norm(x, gamma.shape, gamma, beta, eps)
        ctx.save_for_backward(x, mean, r, gamma, beta)
        return y

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> Any:
        x, mean, r, gamma, beta = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *_LayerNormBackward.apply(gy, x, mean, r, gamma), None
        wanted = [True, True, True]
        found = torch.ops.aten.native_layer_norm_backward(gy, x, gamma.shape, mean, r, gamma, beta, wanted)
        return *found, None


def _mean(x: Tensor) -> Tensor:
    return x.mean(-1, keepdim=True)


def _project(x: Tensor, along: Tensor, unit: Tensor) -> Tensor:
    """x - m(x) - unit * along."""
    return (x - _mean(x)).addcmul_(unit, along, value=-1.0)


def _over_rows(x: Tensor) -> Tensor:
    return x.sum(list(range(x.ndim - 1)))


class _LayerNormBackward(Function):
    @staticmethod
    def forward(ctx: Any, gy: Tensor, x: Tensor, mean: Tensor, r: Tensor, gamma: Tensor) -> Any:
        unit, u = (x - mean).mul_(r), gy * gamma
        u_along = _mean(u * unit)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(gy, x, mean, r, gamma, u_along)  # the two maps are made again: memory is dearer
        return _project(u, u_along, unit).mul_(r), _over_rows(gy * unit), _over_rows(gy)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, a: Tensor | None, b: Tensor | None, c: Tensor | None) -> Any:
        gy, x, mean, r, gamma, u_along = ctx.saved_tensors
        unit = (x - mean).mul_(r)
        new_gy = new_gamma = None
        v, bent = gy * b if b is not None else torch.zeros_like(gy), 0.0
        if a is not None:
            u, a_along = gy * gamma, _mean(a * unit)
            projected = _project(a, a_along, unit)
            bent = _mean(projected * u) * r
            projected.mul_(r)
            new_gamma = _over_rows(projected * gy)
            new_gy = projected.mul_(gamma)
            v.addcmul_(a, u_along * r, value=-1.0).addcmul_(u, a_along * r, value=-1.0)
        new_gy = total(
            new_gy,
            unit * b if b is not None else None,
            c.expand_as(gy) if c is not None else None,
        )
        new_x = _project(v, _mean(v * unit) + bent, unit).mul_(r)
        return new_gy, new_x, None, None, new_gamma
