"""Attention in which every point of a grid sees the k x k points around it, as a convolution would.

    out_i = Σ_j softmax_j(q_i · k_j / √d) v_j        j in the neighbourhood of i, or a prefix token

Borders are masked: a corner sees fewer points, none of them made of zeros. Prefix tokens (class token, registers) see
everybody and are seen by everybody. Which points a kernel sees, even kernels too, is told in
`vitscope.anatomy.structure.neighbourhood`; one as long as the grid sees all of it, and then nothing is masked at all.

A large grid is cut into tiles, each of which attends to itself and to the margin around it. On a small one, where a
tile and its margin are most of the grid, attention to everything under a mask is quicker. One axis at a time: points
0 ... n - 1 are cut into tiles of equal length, the last of which begins earlier, over the one before, if they do not
come out even. A tile's window is what its points see, moved inwards at the borders so that all are equally long.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import has_torch_function

from vitscope.anatomy.structure.neighbourhood import Grid, neighbourhood, neighbours
from vitscope.core.errors import VitscopeError
from vitscope.models.errors import CannotBuild

# Measured on the CPU with 64 channels per head: a key costs a query one unit of time, to copy it costs 32 for each axis
# that is cut, and the steps by tiles take 1.5 times as long per unit as the fused kernel.
TILES = (2, 4, 8)
COPY = 32
TILED = 1.5


@dataclass(frozen=True)
class Cut:
    """The tiles of one axis."""

    size: int  # points of the axis
    kernel: int  # how many of them each sees
    tile: int  # points of a tile

    @property
    def count(self) -> int:
        """Number of tiles."""
        return -(-self.size // self.tile)

    @property
    def window(self) -> int:
        """Points that a tile sees."""
        return min(self.tile + min(self.kernel, self.size) - 1, self.size)

    @cached_property
    def tiles(self) -> tuple[int, ...]:
        """Where each tile begins."""
        return tuple(min(i * self.tile, self.size - self.tile) for i in range(self.count))

    @cached_property
    def windows(self) -> tuple[int, ...]:
        """Where each tile's window begins."""
        before, last = (self.kernel - 1) // 2, self.size - self.window
        return tuple(min(max(start - before, 0), last) for start in self.tiles)

    def seen(self) -> Tensor:
        """Which points of its window each point of a tile sees, (tiles, tile, window)."""
        seen = neighbours(self.size, self.kernel)
        pairs = zip(self.tiles, self.windows, strict=True)
        return torch.stack([seen[t : t + self.tile, w : w + self.window] for t, w in pairs])

    def join(self, tiles: Tensor, axis: int) -> Tensor:
        """The axis again, from its tiles one after the other; of points in two tiles the later tile's are left out."""
        twice = self.count * self.tile - self.size
        if not twice:
            return tiles
        first = (self.count - 1) * self.tile
        before, _, after = tiles.split([first, twice, self.tile - twice], axis)
        return torch.cat([before, after], axis)


def gather(
    tensor: Tensor,
    axis: int,
    starts: Sequence[int],
    length: int,
    stride: int = 1,
    before: Tensor | None = None,
) -> Tensor:
    """Stretches of one axis, one after the other, with `before` in front of each; a point is `stride` entries of it.

    It is cut once, at every border of a stretch, so that the backward pass puts it together once, whatever the overlap.
    """
    size = tensor.shape[axis] // stride
    if before is None and list(starts) == list(range(0, size, length)) and size % length == 0:
        return tensor
    borders = sorted({0, size, *starts, *(start + length for start in starts)})
    pieces = tensor.split([(end - begin) * stride for begin, end in pairwise(borders)], axis)
    taken: list[Tensor] = []
    for start in starts:
        if before is not None:
            taken.append(before)
        taken += [
            piece
            for begin, piece in zip(borders[:-1], pieces, strict=True)
            if start <= begin < start + length
        ]
    return torch.cat(taken, axis)


class LocalAttention(nn.Module):
    """`F.scaled_dot_product_attention` with local reach, for the points of a grid that come by rows after so many
    `prefix` tokens; the kernel is the side of the neighbourhood, or its rows and columns."""

    bias: Tensor | None  # 0 where a key is seen, else -inf

    def __init__(self, grid: Grid, kernel: int | Grid, prefix: int = 0) -> None:
        super().__init__()
        self.grid, self.prefix = (grid[0], grid[1]), prefix
        self.kernel = (kernel, kernel) if isinstance(kernel, int) else (kernel[0], kernel[1])
        if min(*self.grid, *self.kernel) < 1 or prefix < 0:
            raise CannotBuild(
                f"local attention with kernel {self.kernel} on a {self.grid} grid after {prefix} tokens: "
                "a side must be at least 1, e.g. kernel=3"
            )
        self.tokens = prefix + grid[0] * grid[1]
        self.cuts = _choose_cuts(self.grid, self.kernel, prefix)
        self.register_buffer("bias", self._bias(), persistent=False)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """(..., tokens, channels) each; the other arguments as for `F.scaled_dot_product_attention`."""
        if query.shape[-2] != self.tokens or key.shape[-2] != self.tokens:
            raise VitscopeError(
                f"{query.shape[-2]} queries and {key.shape[-2]} keys; local attention on a {self.grid} grid after "
                f"{self.prefix} tokens takes {self.tokens}"
            )
        options: dict[str, Any] = {"dropout_p": dropout_p, "scale": scale, "enable_gqa": enable_gqa}
        if self.bias is None:
            return F.scaled_dot_product_attention(
                query, key, value, attn_mask, is_causal=is_causal, **options
            )
        plain = attn_mask is None and not is_causal and not enable_gqa and not _watched(query, key, value)
        if plain and self.cuts is not None:
            return self._by_tiles(query, key, value, dropout_p, scale)
        if plain:
            return F.scaled_dot_product_attention(query, key, value, self.bias.to(query.dtype), **options)
        mask = _restricted(self.seen(query.device), attn_mask, is_causal)
        return F.scaled_dot_product_attention(query, key, value, mask, **options)

    def seen(self, device: torch.device | None = None) -> Tensor:
        """Which tokens each token sees, (tokens, tokens), true where seen."""
        return neighbourhood(self.grid, self.kernel, self.prefix, device)

    def extra_repr(self) -> str:
        """Settings."""
        return f"grid={self.grid}, kernel={self.kernel}, prefix={self.prefix}"

    def _bias(self) -> Tensor | None:
        """(tokens, tokens), or (tiles, queries, keys) by tiles; None if everybody sees everybody."""
        if all(reach >= size for size, reach in zip(self.grid, self.kernel, strict=True)):
            return None
        if self.cuts is None:
            seen = self.seen()
        else:
            rows, columns = (cut.seen() for cut in self.cuts)
            near = rows[None, :, :, None, :, None] & columns[:, None, None, :, None, :]
            near = near.flatten(4, 5).flatten(2, 3).flatten(0, 1)
            seen = F.pad(near, (self.prefix, 0), value=True)
        return hiding(seen)

    def _by_tiles(
        self, query: Tensor, key: Tensor, value: Tensor, dropout_p: float, scale: float | None
    ) -> Tensor:
        assert self.bias is not None
        assert self.cuts is not None
        rows, columns = self.cuts
        first, points = query.split([self.prefix, self.tokens - self.prefix], -2)
        points = gather(points.unflatten(-2, self.grid), -2, columns.tiles, columns.tile)
        points = gather(points, -3, rows.tiles, rows.tile).unflatten(-2, (columns.count, columns.tile))
        points = points.unflatten(-4, (rows.count, rows.tile)).movedim(-3, -5)
        queries = points.flatten(-3, -2).flatten(-4, -3)
        # step by step: the fused kernel is made for longer rows than a tile's, and this has a second derivative
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        scores = queries @ self._windows(key).transpose(-2, -1)
        weights = torch.add(self.bias.to(query.dtype), scores, alpha=scale).softmax(-1)
        output = F.dropout(weights, dropout_p) @ self._windows(value)
        output = output.unflatten(-2, (rows.tile, columns.tile)).unflatten(-4, (columns.count, rows.count))
        output = output.movedim(-5, -3).flatten(-3, -2).flatten(-4, -3)
        output = columns.join(rows.join(output, -3), -2).flatten(-3, -2)
        if not self.prefix:
            return output
        overall = F.scaled_dot_product_attention(first, key, value, dropout_p=dropout_p, scale=scale)
        return torch.cat([overall, output], -2)

    def _windows(self, tokens: Tensor) -> Tensor:
        """What each tile sees, the prefix first: (..., tiles, tokens, channels), tiles by columns."""
        assert self.cuts is not None
        rows, columns = self.cuts
        first, points = tokens.split([self.prefix, self.tokens - self.prefix], -2)
        points = gather(points.unflatten(-2, self.grid), -2, columns.windows, columns.window)
        points = points.unflatten(-2, (columns.count, columns.window)).movedim(-3, -4).flatten(-3, -2)
        shared = first.unsqueeze(-3).expand(*first.shape[:-2], columns.count, *first.shape[-2:])
        found = gather(points, -2, rows.windows, rows.window, columns.window, shared if self.prefix else None)
        return found.unflatten(-2, (rows.count, -1)).flatten(-4, -3)


def local_attention(
    query: Tensor, key: Tensor, value: Tensor, grid: Grid, kernel: int | Grid, prefix: int = 0, **options: Any
) -> Tensor:
    """`F.scaled_dot_product_attention` with local reach; `LocalAttention` is the same and keeps its mask."""
    attention = LocalAttention(grid, kernel, prefix).to(query.device)
    found: Tensor = attention(query, key, value, **options)
    return found


def hiding(seen: Tensor) -> Tensor:
    """What to add to scores: 0 where a key is seen, else -inf."""
    return torch.zeros(seen.shape, device=seen.device).masked_fill(~seen, float("-inf"))


def _choose_cuts(grid: Grid, kernel: Grid, prefix: int) -> tuple[Cut, Cut] | None:
    """The quickest tiles, or None where a mask over everything is quicker."""
    tall, wide = (
        [Cut(size, reach, tile) for tile in sorted({*(min(tile, size) for tile in TILES), size})]
        for size, reach in zip(grid, kernel, strict=True)
    )

    def cost(cuts: tuple[Cut, Cut]) -> float:
        rows, columns = cuts
        keys = prefix + rows.window * columns.window
        queries = rows.count * rows.tile * columns.count * columns.tile
        copies = COPY * ((rows.count > 1) + (columns.count > 1))
        return TILED * queries * keys * (1 + copies / (rows.tile * columns.tile))

    best = min(product(tall, wide), key=cost)
    points = grid[0] * grid[1]
    return best if cost(best) < points * (prefix + points) else None


def _watched(*tensors: Tensor) -> bool:
    """Somebody follows the operations (anatomy, a tap) and is to see attention as it is usually written."""
    return has_torch_function(tensors) and not torch.compiler.is_compiling()


def _restricted(seen: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """A mask that also hides what another one hides."""
    if is_causal:
        seen = seen.tril()
    if mask is None:
        return seen
    return mask & seen if mask.dtype == torch.bool else mask.masked_fill(~seen, float("-inf"))
