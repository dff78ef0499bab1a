"""Other orders of adding up float32 numbers, each of which a library on some CPU may take: tests must pass under all.

    with added_up("sequential"):
        ...                          # matrix products, convolutions, sums, means, norms, variances, normalisations

replaces PyTorch's sums, forwards and backwards: strictly one after another, the same from the end, in blocks, or by the
shapes now this way and now that. float64 is left alone, and so are the threads and processes that a test starts.

`rounding(n)` is the bound that holds for every order: a float32 sum of n terms t is off by at most rounding(n) sum |t|.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

aten = torch.ops.aten
FEW = 1 << 9  # results whose terms are written out; for more of them, a loop over the terms is quicker
MANY = 1 << 22  # terms that are written out at once


def rounding(n: float, dtype: torch.dtype = torch.float32) -> float:
    """γ(n) = n u / (1 - n u), with u half the machine epsilon: how far a sum of n products may be off (Higham, 3.1)."""
    error = n * torch.finfo(dtype).eps / 2
    return error / (1 - error)


@dataclass(frozen=True)
class Order:
    """Terms are added up in blocks of `block`, and the blocks one after another."""

    block: int = 1
    backwards: bool = False

    def for_shape(self, *shape: int) -> "Order":
        """The order for results of this shape."""
        return self

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """(B, m, n) from (B, m, k) and (B, k, n)."""
        batch, m, k = a.shape
        n = b.shape[2]
        self = self.for_shape(batch, m, n)
        if self.block == 1 and batch * m * n <= FEW < k:
            return self._written_out(a, b)
        total = a.new_zeros(batch, m, n)
        if self.block == 1:
            columns, rows = a.permute(2, 0, 1).contiguous(), b.transpose(0, 1).contiguous()
            for column, row in self._in_turn(zip(columns[..., None], rows[:, :, None], strict=True)):
                total.addcmul_(column, row)
        else:
            blocks = zip(a.split(self.block, 2), b.split(self.block, 1), strict=True)
            for left, right in self._in_turn(blocks):
                total += torch.bmm(left, right)
        return total

    def _in_turn(self, terms: Iterator[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
        return reversed(list(terms)) if self.backwards else terms

    def _written_out(self, a: Tensor, b: Tensor) -> Tensor:
        a, b = (a.flip(2), b.flip(1)) if self.backwards else (a, b)
        total = a.new_zeros(len(a), a.shape[1], b.shape[2])
        for i in range(0, a.shape[2], at_once := max(1, MANY // total.numel())):
            terms = a[:, :, None, i : i + at_once] * b.mT[:, None, :, i : i + at_once]
            total = _running(torch.cat([total[..., None], terms], 3))
        return total

    def sum(self, x: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """Over some axes, or all."""
        dims = sorted(d % x.ndim for d in dims) if dims else list(range(x.ndim))
        kept = [d for d in range(x.ndim) if d not in dims]
        rows = x.permute(*kept, *dims).reshape(math.prod(x.shape[d] for d in kept), -1)
        self = self.for_shape(len(rows))
        if self.backwards:
            rows = rows.flip(1)
        if self.block > 1:
            rows = F.pad(rows, (0, -rows.shape[1] % self.block))
            rows = rows.unflatten(1, (-1, self.block)).sum(2)
        shape = [1 if d in dims else size for d, size in enumerate(x.shape)]
        found = _running(rows).reshape(shape)
        return found if keepdim else found.squeeze(dims)

    def mean(self, x: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """Over some axes, or all."""
        found = self.sum(x, dims, keepdim)
        return found / (x.numel() // max(1, found.numel()))


class ByShape(Order):
    """Libraries choose a kernel by the shapes: an image alone need not give the digits that it gives in a batch."""

    def for_shape(self, *shape: int) -> Order:
        """Any of seven."""
        which = sum((2 * i + 1) * size for i, size in enumerate(shape)) % 7
        return Order(1 + which // 2, backwards=which % 2 == 1)


def _running(rows: Tensor) -> Tensor:
    """The sum over the last axis, one after another; PyTorch's cumsum would do it in float64."""
    return torch.from_numpy(np.add.accumulate(rows.detach().numpy(), axis=-1)[..., -1].copy())


ORDERS = {
    "sequential": Order(),
    "reversed": Order(backwards=True),
    "blocks of 7": Order(7),
    "blocks of 64": Order(64),
    "blocks of 1000": Order(1000, backwards=True),
    "by shape": ByShape(),
}


class _Replaced(TorchDispatchMode):
    def __init__(self, order: Order) -> None:
        super().__init__()
        self.order = order

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Otherwise nothing can be compiled inside of it."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        mine = _MINE.get(func)
        if (
            mine is None and _plain(args) and _composed(func)
        ):  # as they come in inference mode: linear, conv2d ...
            with self:
                return func.decompose(*args, **kwargs)
        if mine is None or not _plain(args) or kwargs.get("dtype", torch.float32) is torch.float64:
            return func(*args, **kwargs)
        like = func(*tree_map(_nowhere, args), **tree_map(_nowhere, kwargs))  # refuses what PyTorch refuses
        found = mine(self.order, *args, **kwargs)
        if found is None:
            return func(*args, **kwargs)
        return tree_map(_laid_out, found, like)


@functools.cache
def _composed(func: Any) -> bool:
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return bool(func.namespace == "aten" and func.has_kernel_for_dispatch_key(key))


def _nowhere(value: Any) -> Any:
    """A tensor of the same layout without numbers."""
    if not isinstance(value, Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def _laid_out(found: Any, like: Any) -> Any:
    """In memory as PyTorch would have it: what is compiled counts on it."""
    if not isinstance(found, Tensor) or found.stride() == like.stride():
        return found
    return torch.empty_strided(like.shape, like.stride()).copy_(found)


def _plain(args: Sequence[Any]) -> bool:
    tensors = [a for a in args if isinstance(a, Tensor)]
    kinds = {Tensor, torch.nn.Parameter}
    return bool(tensors) and all(
        type(t) in kinds and t.dtype is torch.float32 and t.device.type == "cpu" and t.numel()
        for t in tensors
    )


@contextmanager
def added_up(order: str) -> Iterator[None]:
    """Everything in float32 on the CPU is added up in this order of `ORDERS`."""
    with _Replaced(ORDERS[order]):
        yield


# What replaces each operation; it may return None to say that it does not.


def _mm(order: Order, a: Tensor, b: Tensor) -> Tensor:
    return order.product(a[None], b[None])[0]


def _addmm(order: Order, c: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    return beta * c + alpha * _mm(order, a, b)


def _bmm(order: Order, a: Tensor, b: Tensor) -> Tensor:
    return order.product(a, b)


def _baddbmm(order: Order, c: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    return beta * c + alpha * order.product(a, b)


def _mv(order: Order, a: Tensor, b: Tensor) -> Tensor:
    return _mm(order, a, b[:, None])[:, 0]


def _addmv(order: Order, c: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    return beta * c + alpha * _mv(order, a, b)


def _dot(order: Order, a: Tensor, b: Tensor) -> Tensor:
    return _mm(order, a[None], b[:, None])[0, 0]


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda order, c, *args, **kwargs: c.copy_(function(order, c, *args, **kwargs))


def _sum(
    order: Order, x: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    return order.sum(x, dims, keepdim)


def _mean(
    order: Order, x: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    return order.mean(x, dims, keepdim)


def _norm(
    order: Order,
    x: Tensor,
    p: float = 2,
    dims: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tensor | None:
    return order.sum(x * x, dims, keepdim).sqrt() if p == 2 else None


def _norms(order: Order, tensors: Sequence[Tensor], p: float = 2, dtype: Any = None) -> list[Tensor] | None:
    return [order.sum(x * x).sqrt() for x in tensors] if p == 2 and _plain(tensors) else None


def _var_mean(
    order: Order,
    x: Tensor,
    dims: Sequence[int] | None = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    mean = order.mean(x, dims, keepdim=True)
    squares = order.sum((x - mean).square(), dims, keepdim=True)
    n = x.numel() // max(1, squares.numel())
    variance = squares / (n - (1 if correction is None else correction))
    kept = squares if keepdim else order.sum(x, dims)
    return variance.reshape(kept.shape), mean.reshape(kept.shape)


def _var(order: Order, *args: Any, **kwargs: Any) -> Tensor:
    return _var_mean(order, *args, **kwargs)[0]


def _std(order: Order, *args: Any, **kwargs: Any) -> Tensor:
    return _var_mean(order, *args, **kwargs)[0].sqrt()


def _softmax(order: Order, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    powers = (x - x.amax(dim, keepdim=True)).exp()
    return powers / order.sum(powers, [dim], keepdim=True)


def _log_softmax(order: Order, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    lower = x - x.amax(dim, keepdim=True)
    return lower - order.sum(lower.exp(), [dim], keepdim=True).log()


def _layer_norm(
    order: Order, x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    dims = list(range(x.ndim - len(shape), x.ndim))
    variance, mean = _var_mean(order, x, dims, correction=0, keepdim=True)
    scale = (variance + eps).rsqrt()
    y = (x - mean) * scale
    y = y if weight is None else y * weight
    return y if bias is None else y + bias, mean, scale


def _attention(
    order: Order,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor] | None:
    if dropout or causal:
        return None
    scores = order.product(q.flatten(0, 1), k.mT.flatten(0, 1)).unflatten(0, q.shape[:2])
    scores = scores * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if attn_mask is None else scores + attn_mask
    out = order.product(_softmax(order, scores, -1, False).flatten(0, 1), v.flatten(0, 1))
    return out.unflatten(0, q.shape[:2]), scores.logsumexp(-1)


def _convolution(
    order: Order,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Tensor | None:
    if transposed or x.ndim != 4:
        return None
    columns = F.unfold(x, w.shape[2:], dilation, padding, stride).unflatten(1, (groups, -1)).flatten(0, 1)
    weights = w.flatten(1).unflatten(0, (groups, -1)).repeat(len(x), 1, 1)
    sizes = zip(x.shape[2:], padding, dilation, w.shape[2:], stride, strict=True)
    height, width = ((size + 2 * p - d * (side - 1) - 1) // s + 1 for size, p, d, side, s in sizes)
    y = order.product(weights, columns).reshape(len(x), len(w), height, width)
    return y if bias is None else y + bias[:, None, None]


def _convolution_backward(
    order: Order,
    g: Tensor,
    x: Tensor,
    w: Tensor,
    bias: list[int] | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    wanted: list[bool],
) -> tuple[Tensor | None, ...] | None:
    if transposed or x.ndim != 4:
        return None
    above = g.flatten(2).unflatten(1, (groups, -1)).flatten(0, 1)  # (N groups, channels, places)
    gx = gw = None
    if wanted[0]:
        weights = w.flatten(1).unflatten(0, (groups, -1)).repeat(len(x), 1, 1)
        columns = order.product(weights.mT, above).unflatten(0, (len(x), groups)).flatten(1, 2)
        gx = F.fold(columns, x.shape[2:], w.shape[2:], dilation, padding, stride)
    if wanted[1]:
        columns = F.unfold(x, w.shape[2:], dilation, padding, stride).unflatten(1, (groups, -1))
        places = columns.permute(1, 0, 3, 2).flatten(1, 2)  # (groups, N places, taps)
        rows = above.unflatten(0, (len(x), groups)).permute(1, 2, 0, 3).flatten(2)
        gw = order.product(rows, places).reshape(w.shape)
    return gx, gw, order.sum(g, [0, 2, 3]) if wanted[2] else None


_MINE: dict[Any, Callable[..., Any]] = {
    aten.mm.default: _mm,
    aten.addmm.default: _addmm,
    aten.addmm_.default: _in_place(_addmm),
    aten.bmm.default: _bmm,
    aten.baddbmm.default: _baddbmm,
    aten.baddbmm_.default: _in_place(_baddbmm),
    aten.mv.default: _mv,
    aten.addmv.default: _addmv,
    aten.addmv_.default: _in_place(_addmv),
    aten.dot.default: _dot,
    aten.vdot.default: _dot,
    aten.sum.default: _sum,
    aten.sum.dim_IntList: _sum,
    aten.mean.default: _mean,
    aten.mean.dim: _mean,
    aten.linalg_vector_norm.default: _norm,
    aten._foreach_norm.Scalar: _norms,
    aten.var.correction: _var,
    aten.std.correction: _std,
    aten.var_mean.correction: _var_mean,
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _log_softmax,
    aten.native_layer_norm.default: _layer_norm,
    aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
    aten.convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
}
