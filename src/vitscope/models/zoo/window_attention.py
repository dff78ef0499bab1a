"""Attention inside the windows of a map, the MSA of AlterNet.

    out(x) = softmax(q kᵀ / √d + B) v Wo + b        in every window and head, q = x Wq, k = x Wk, v = x Wv
    B[i, j] = T[y(i) - y(j) + w - 1, x(i) - x(j) + w - 1]        one table T of (2w-1)² for all heads

These are Swin's windows and relative positions, without its cyclic shift. Maps that the window does not divide are
padded at the bottom and at the right; what is padded is no key for anybody (-inf, not a key of zeros). Where the map
is smaller than the window, it is the window.

The projections work on the map as it lies, a point per row. Cutting into windows and into heads is one copy of q, k
and v each, and putting both together again one more: no other layout conversion is made on a channels_last map.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitscope.models.errors import CannotBuild


class WindowAttention(nn.Module):
    """(N, channels, H, W) to (N, out_channels or else channels, H, W), any H and W."""

    def __init__(
        self, channels: int, heads: int, window: int, out_channels: int | None = None, dim_head: int = 64
    ) -> None:
        super().__init__()
        if min(channels, heads, window, dim_head) < 1:
            raise CannotBuild(
                f"window attention of {channels} channels, {heads} heads of {dim_head}, window {window}: "
                "each must be at least 1, e.g. heads=6, window=4"
            )
        self.heads, self.window, self.dim_head = heads, window, dim_head
        inner = heads * dim_head
        # three maps, not one of three times the width: the backward pass needs not put their gradients together
        self.query = nn.Linear(channels, inner, bias=False)
        self.key = nn.Linear(channels, inner, bias=False)
        self.value = nn.Linear(channels, inner, bias=False)
        self.proj = nn.Linear(inner, out_channels or channels)
        self.relative_position_bias_table = nn.Parameter(torch.empty(2 * window - 1, 2 * window - 1))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """Attend in every window."""
        height, width = x.shape[2:]
        tall, wide = min(self.window, height), min(self.window, width)
        below, right = -height % tall, -width % wide
        points = x.permute(0, 2, 3, 1).contiguous()  # once for the three maps; nothing to do on channels_last
        if below or right:
            points = F.pad(points, (0, 0, 0, right, 0, below))
        maps = (self.query, self.key, self.value)
        query, key, value = (self._cut(part(points), tall, wide) for part in maps)
        bias = relative_position_bias(self.relative_position_bias_table, tall, wide)
        if below or right:
            bias = bias + _padding_bias(points, height, width, tall, wide)
        # scaling the scores is cheaper than scaling q, and in the backward pass q and k: they are the larger ones
        scores = torch.add(bias, query @ key.transpose(-2, -1), alpha=self.dim_head**-0.5)
        found = self._join(scores.softmax(-1) @ value, points.shape[1:3], tall, wide)
        if below or right:
            found = found[:, :height, :width]
        return self.proj(found).permute(0, 3, 1, 2)

    def _cut(self, points: Tensor, tall: int, wide: int) -> Tensor:
        """(N, H, W, heads x channels) to (N, windows, heads, points, channels)."""
        down, across = points.shape[1] // tall, points.shape[2] // wide
        cut = points.view(-1, down, tall, across, wide, self.heads, self.dim_head)
        cut = cut.permute(0, 1, 3, 5, 2, 4, 6)
        return cut.reshape(-1, down * across, self.heads, tall * wide, self.dim_head)

    def _join(self, cut: Tensor, size: tuple[int, ...], tall: int, wide: int) -> Tensor:
        """(N, windows, heads, points, channels) to (N, H, W, heads x channels)."""
        height, width = size
        shape = (-1, height // tall, width // wide, self.heads, tall, wide, self.dim_head)
        joined = cut.view(shape).permute(0, 1, 4, 2, 5, 3, 6)
        return joined.reshape(-1, height, width, cut.shape[2] * cut.shape[4])


def relative_position_bias(table: Tensor, tall: int, wide: int) -> Tensor:
    """What each query of a tall x wide window adds to the score of each key, (tall x wide, tall x wide); out of a table
    (2w-1, 2w-1) by the query's position minus the key's, (0, 0) in the middle, for windows of at most w x w."""
    middle = table.shape[0] // 2
    near = table[middle - tall + 1 : middle + tall, middle - wide + 1 : middle + wide]
    # slides[y, x, a, b] = near[y + a, x + b]; the key at a' stands at a = tall - 1 - a'
    slides = near.unfold(0, tall, 1).unfold(1, wide, 1)
    return slides.flip(2, 3).reshape(tall * wide, tall * wide)


def _padding_bias(points: Tensor, height: int, width: int, tall: int, wide: int) -> Tensor:
    """-inf for the keys outside of the map of `height` and `width`, else 0: (windows, 1, 1, points)."""
    outside = torch.ones(points.shape[1:3], dtype=torch.bool, device=points.device)
    outside[:height, :width] = False
    outside = outside.unflatten(0, (-1, tall)).unflatten(2, (-1, wide)).transpose(1, 2)
    bias = torch.zeros(outside.shape, dtype=points.dtype, device=points.device)
    return bias.masked_fill(outside, float("-inf")).reshape(-1, 1, 1, tall * wide)
