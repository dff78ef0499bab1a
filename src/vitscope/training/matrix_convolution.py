"""Convolutions over small maps, computed as one matrix product.

    y[n, p, o] = sum over taps t and channels c of  x[n, s p + t, c] w[o, t, c]  =  patches @ w.T

A CPU's convolution kernels are made for large maps. Over a handful of points they fall to a tenth of what the processor
does in a matrix product, forward and backward. The patches of a small map are small, so nothing is lost by laying
them out. Taps that meet nothing but padding, as eight of nine do over a single point, are left out.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import linear


class MatrixConv2d(nn.Conv2d):
    """A `Conv2d` that computes the same in another way. Its maps have the channels last."""

    @staticmethod
    def can_replace(module: nn.Module) -> bool:
        """Whether `module` is a plain convolution of the kind that this computes."""
        return (
            type(module) is nn.Conv2d
            and module.groups == 1
            and module.dilation == (1, 1)
            and module.padding_mode == "zeros"
            and not isinstance(module.padding, str)
        )

    @classmethod
    def replace(cls, convolution: nn.Conv2d) -> None:
        """Let a plain convolution compute this way."""
        convolution.__class__ = cls

    def restore(self) -> None:
        """Be a plain convolution again."""
        self.__class__ = nn.Conv2d  # type: ignore[assignment]

    def forward(self, x: Tensor) -> Tensor:
        """What the convolution gives."""
        (high, wide), (pad_high, pad_wide) = x.shape[-2:], (int(padding) for padding in self.padding)
        rows = _taps(high, self.kernel_size[0], self.stride[0], pad_high)
        columns = _taps(wide, self.kernel_size[1], self.stride[1], pad_wide)
        weight = _Met.apply(self.weight, (..., rows.met, columns.met))
        x = x.movedim(-3, -1)
        patches = x if rows.plain and columns.plain else _Patches.apply(x, rows, columns).flatten(-2)
        return linear(patches, weight.movedim(1, -1).flatten(1), self.bias).movedim(-1, -3)


@dataclass(frozen=True)
class _Taps:
    """Along one side of a map: which points the taps meet.

    Attributes:
        met: The taps from the first to the last that meets a point.
        places: For each of these, the places of the output at which it meets points, and those points.
        size: Points of the map.
        places_in_all: Places of the output.
    """

    met: slice
    places: tuple[tuple[slice, slice], ...]
    size: int
    places_in_all: int

    @property
    def plain(self) -> bool:
        """Whether there is a single tap, and it meets every point in turn."""
        return self.places == ((slice(0, self.size), slice(0, self.size, 1)),)


@cache
def _taps(size: int, kernel: int, stride: int, padding: int) -> _Taps:
    n = (size + 2 * padding - kernel) // stride + 1
    points = [[(p, p * stride + tap - padding) for p in range(n)] for tap in range(kernel)]
    meetings = [[(p, point) for p, point in tap if 0 <= point < size] for tap in points]
    met = [tap for tap, meeting in enumerate(meetings) if meeting] or [0]
    used = slice(met[0], met[-1] + 1)
    return _Taps(used, tuple(_as_slices(meeting, stride) for meeting in meetings[used]), size, n)


def _as_slices(meeting: list[tuple[int, int]], stride: int) -> tuple[slice, slice]:
    if not meeting:
        return slice(0), slice(0)
    (first_place, first_point), (last_place, last_point) = meeting[0], meeting[-1]
    return slice(first_place, last_place + 1), slice(first_point, last_point + 1, stride)


class _Met(Function):
    """The weights of the taps that meet a point; the others get a gradient of 0, laid out as the weights are."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, met: tuple[Any, ...]) -> Tensor:
        ctx.met, ctx.like = met, weight
        return weight[met]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        if gradient.shape == ctx.like.shape:
            return gradient, None
        whole = torch.zeros_like(ctx.like)
        whole[ctx.met] = gradient
        return whole, None


class _Patches(Function):
    """Maps (N, H, W, C) to what every tap meets at every place (N, H', W', taps, C)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: _Taps, columns: _Taps) -> Tensor:
        ctx.taps = rows, columns
        patches = x.new_zeros(
            (
                len(x),
                rows.places_in_all,
                columns.places_in_all,
                len(rows.places) * len(columns.places),
                x.shape[-1],
            )
        )
        for tap, (place, point) in enumerate(_pairs(rows, columns)):
            patches[(slice(None), *place, tap)] = x[(slice(None), *point)]
        return patches

    @staticmethod
    def backward(ctx: Any, patches: Tensor) -> tuple[Tensor, None, None]:
        return _Meeting.apply(patches, *ctx.taps), None, None


class _Meeting(Function):
    """The other way round: adds what belongs to the same point. The gradient of `_Patches`, whose own it is."""

    @staticmethod
    def forward(ctx: Any, patches: Tensor, rows: _Taps, columns: _Taps) -> Tensor:
        ctx.taps = rows, columns
        x = patches.new_zeros((len(patches), rows.size, columns.size, patches.shape[-1]))
        for tap, (place, point) in enumerate(_pairs(rows, columns)):
            x[(slice(None), *point)] += patches[(slice(None), *place, tap)]
        return x

    @staticmethod
    def backward(ctx: Any, x: Tensor) -> tuple[Tensor, None, None]:
        return _Patches.apply(x, *ctx.taps), None, None


def _pairs(rows: _Taps, columns: _Taps) -> list[tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """For every tap of both sides: its places, and the points it meets there."""
    return [
        ((row_place, column_place), (row_point, column_point))
        for row_place, row_point in rows.places
        for column_place, column_point in columns.places
    ]
