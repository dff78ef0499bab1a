"""Convolutions.

A convolution y = x * W + c:

    gx = Wᵀ gy,  gW = correlation of gy and x,  gc = Σ gy

All are bilinear, so the derivatives of the gradient are the same three kinds of convolution with one factor exchanged.
torch would compute that of W as a forward convolution with a kernel as large as the map.
"""

from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def total(*terms: Tensor | None) -> Tensor | None:
    """The sum of the terms that are there, written into the first, which nobody else may hold."""
    present = [term for term in terms if term is not None]
    return reduce(Tensor.add_, present) if present else None


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
