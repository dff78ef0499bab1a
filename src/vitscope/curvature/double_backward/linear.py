"""Linear maps and GELU.

A linear map y = x Wᵀ + c:

    gx = gy W,   gW = gyᵀ x,   gc = Σ gy;      along (a, b, c):   d gy = a Wᵀ + x bᵀ + c,   d x = gy b,   d W = gyᵀ a

A convolution y = x * W + c:  gx = Wᵀ gy,  gW = correlation of gy and x,  gc = Σ gy. All are bilinear, so the
derivatives of the gradient are the same three kinds of convolution with one factor exchanged. torch would compute that
of W as a forward convolution with a kernel as large as the map.

GELU, y = x Φ(x), with its derivatives kept:  y' = Φ + x φ,  y'' = φ (2 - x²). They do not change from product to
product, which is left with three multiplications.
"""

import math
from functools import reduce
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def total(*terms: Tensor | None) -> Tensor | None:
    """The sum of the terms that are there, written into the first, which nobody else may hold."""
    present = [term for term in terms if term is not None]
    return reduce(Tensor.add_, present) if present else None


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`."""
    if weight.ndim != 2 or input.ndim < 2:
        return F.linear(input, weight, bias)
    return _Linear.apply(input, weight, bias)


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, c: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, w)
        return F.linear(x, w, c)

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> Any:
        x, w = ctx.saved_tensors
        return _LinearBackward.apply(gy, x, w, tuple(ctx.needs_input_grad))


class _LinearBackward(Function):
    @staticmethod
    def forward(ctx: Any, gy: Tensor, x: Tensor, w: Tensor, wanted: tuple[bool, bool, bool]) -> Any:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(gy, x, w)
        rows = gy.reshape(-1, gy.shape[-1])
        gx = (rows @ w).view_as(x) if wanted[0] else None
        gw = rows.T @ x.reshape(-1, x.shape[-1]) if wanted[1] else None
        return gx, gw, rows.sum(0) if wanted[2] else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, a: Tensor | None, b: Tensor | None, c: Tensor | None) -> Any:
        gy, x, w = ctx.saved_tensors
        rows, inputs = gy.reshape(-1, gy.shape[-1]), x.reshape(-1, x.shape[-1])
        along = None if a is None else a.reshape(inputs.shape)
        new_gy = new_x = new_w = None
        if ctx.needs_input_grad[0]:
            new_gy = None if c is None else c.repeat(len(rows), 1)
            for factor, other in ((along, w), (inputs, b)):
                if factor is not None and other is not None:
                    new_gy = factor @ other.T if new_gy is None else new_gy.addmm_(factor, other.T)
            new_gy = None if new_gy is None else new_gy.view_as(gy)
        if ctx.needs_input_grad[1] and b is not None:
            new_x = (rows @ b).view_as(x)
        if ctx.needs_input_grad[2] and along is not None:
            new_w = rows.T @ along
        return new_gy, new_x, new_w, None


class _Geometry(NamedTuple):
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] | str = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
) -> Tensor:
    """`torch.nn.functional.conv2d`; padding by name, and a single image without batch, are torch's own."""
    if isinstance(padding, str) or input.ndim != 4:
        return torch.conv2d(input, weight, bias, stride, padding, dilation, groups)
    geometry = _Geometry(_pair(stride), _pair(padding), _pair(dilation), groups)
    return _Conv.apply(input, weight, bias, geometry)


def _pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    both = (value, value) if isinstance(value, int) else tuple(value) * (2 // len(value))
    return both[0], both[1]


def _gradients(gy: Tensor, x: Tensor, w: Tensor, geometry: _Geometry, wanted: tuple[bool, bool, bool]) -> Any:
    return torch.ops.aten.convolution_backward(
        gy, x, w, [len(w)], *geometry[:3], False, [0, 0], geometry.groups, list(wanted)
    )


class _Conv(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, c: Tensor | None, geometry: _Geometry) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.geometry = geometry
        return torch.conv2d(x, w, c, *geometry)

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> Any:
        x, w = ctx.saved_tensors
        return *_ConvBackward.apply(gy, x, w, ctx.geometry, tuple(ctx.needs_input_grad[:3])), None


class _ConvBackward(Function):
    @staticmethod
    def forward(
        ctx: Any, gy: Tensor, x: Tensor, w: Tensor, geometry: _Geometry, wanted: tuple[bool, bool, bool]
    ) -> Any:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(gy, x, w)
        ctx.geometry = geometry
        return tuple(_gradients(gy, x, w, geometry, wanted))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, a: Tensor | None, b: Tensor | None, c: Tensor | None) -> Any:
        gy, x, w = ctx.saved_tensors
        geometry, needed = ctx.geometry, ctx.needs_input_grad
        new_gy = new_x = new_w = None
        if needed[0]:
            new_gy = total(
                torch.conv2d(a, w, None, *geometry) if a is not None else None,
                torch.conv2d(x, b, None, *geometry) if b is not None else None,
                c.view(-1, 1, 1).expand_as(gy) if c is not None else None,
            )
        if needed[1] and b is not None:
            new_x = _gradients(gy, x, b, geometry, (True, False, False))[0]
        if needed[2] and a is not None:
            new_w = _gradients(gy, a, w, geometry, (False, True, False))[1]
        return new_gy, new_x, new_w, None, None


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
