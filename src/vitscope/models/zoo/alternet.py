"""AlterNet: a pre-activation ResNet whose stages end in MSA blocks ("How Do Vision Transformers Work?", section 4).

    stage = Conv x (n - 2m), then (Conv, MSA) x m        n blocks of which m are MSAs
    MSA block: x + attention(norm(conv1x1(gelu(norm(x)))))        the attention is in windows

| | blocks | MSAs, 64 pixels or less | MSAs, larger |
|---|---|---|---|
| alternet_18 | 2, 2, 2, 2 | 0, 1, 1, 1 | 0, 1, 1, 1 |
| alternet_34, alternet_50 | 3, 4, 6, 4 | 0, 1, 1, 2 | 0, 1, 3, 2 |
| alternet_101 | 3, 4, 23, 4 | 0, 1, 1, 2 | 0, 1, 3, 2 |
| alternet_152 | 3, 8, 36, 4 | 0, 1, 1, 2 | 0, 1, 3, 2 |

alternet_50 is the published one; its last stage has one block more than ResNet-50's, to be even. The others follow its
pattern: the last stage even, four MSAs for small images and six for large ones, where there is room for them.
Windows are 4x4 for small images and 7x7 for large ones. The published model for CIFAR-100 was trained with
`drop_path_rate=0.1`.

The attention in every window and head, with q = x Wq, k = x Wk, v = x Wv:

    out(x) = softmax(q kᵀ / √d + B) v Wo + b
    B[i, j] = T[y(i) - y(j) + w - 1, x(i) - x(j) + w - 1]        one table T of (2w-1)² for all heads

These are Swin's windows and relative positions, without its cyclic shift. Maps that the window does not divide are
padded at the bottom and at the right; what is padded is no key for anybody (-inf, not a key of zeros). Where the map
is smaller than the window, it is the window.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from timm.layers import DropPath, make_divisible
from timm.models import generate_default_cfgs
from torch import Tensor, nn

from vitscope.models.errors import CannotBuild
from vitscope.models.zoo.preresnet import BASIC, BOTTLENECK, MINI, PreResNet, build, configuration
from vitscope.models.zoo.registration import is_small, register, weight_file

HEADS = (3, 6, 12, 24)
FEW = (0, 1, 1, 2)  # MSAs per stage for small images, which come in small sets
MANY = (0, 1, 3, 2)
MODELS: dict[str, dict[str, Any]] = {
    "alternet_18": {"blocks": (2, 2, 2, 2), "msa": (0, 1, 1, 1), **BASIC},
    "alternet_34": {"blocks": (3, 4, 6, 4), **BASIC},
    # 33.01 M parameters for 32 pixels and 100 classes, 35.92 M for 224 and 1000
    "alternet_50": {"blocks": (3, 4, 6, 4), **BOTTLENECK},
    "alternet_101": {"blocks": (3, 4, 23, 4), **BOTTLENECK},
    "alternet_152": {"blocks": (3, 8, 36, 4), **BOTTLENECK},
    "alternet_mini": {"blocks": (2, 2, 2, 2), "msa": (0, 1, 1, 1), "heads": (1, 2, 4, 8), **MINI},
}

default_cfgs = generate_default_cfgs(
    {
        "alternet_mini.fashion": configuration("alternet_mini", file=weight_file("alternet_mini")),
        **{f"{name}.untrained": configuration(name) for name in MODELS if name != "alternet_mini"},
    }
)


class WindowAttention(nn.Module):
    """(N, channels, H, W) to (N, out_channels or else channels, H, W), any H and W.

    The projections work on the map as it lies, a point per row. Cutting into windows and into heads is one copy of q, k
    and v each, and putting both together again one more: no other layout conversion is made on a channels_last map.
    """

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
        output = self._join(scores.softmax(-1) @ value, points.shape[1:3], tall, wide)
        if below or right:
            output = output[:, :height, :width]
        return self.proj(output).permute(0, 3, 1, 2)

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


class MSABlock(nn.Module):
    """The MSA block of AlterNet; takes the place of a residual block that keeps the shape of its map.

    The attention sees `width` channels; a quarter of them all if not given, as in a bottleneck.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        window: int,
        width: int | None = None,
        dim_head: int = 64,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        width = max(channels // 4, 1) if width is None else width
        self.norm1 = nn.BatchNorm2d(channels)
        self.act = nn.GELU()
        self.conv = nn.Conv2d(channels, width, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.attn = WindowAttention(width, heads, window, channels, dim_head)
        self.drop_path = DropPath(drop_path) if drop_path > 0 else nn.Identity()
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Add what the attention finds."""
        branch = self.conv(self.act(self.norm1(x)))
        return x + self.drop_path(self.attn(self.norm2(branch)))


class AlterNet(PreResNet):
    """A pre-activation ResNet with MSA blocks towards the end of its stages.

    Args:
        blocks: Number of blocks in each stage, MSAs included.
        channels: What comes out of each stage.
        bottleneck: Conv blocks are bottlenecks, and the attention sees a quarter of the channels; else all of them.
        msa: Number of MSA blocks in each stage; if not given, as the table above has it for these images.
        heads: Heads of the MSAs in each stage, 64 channels each.
        window: Side of the windows; 4 for small images and 7 for large ones if not given.
        img_size: Side or (height, width) of the images; chooses the stem, `msa` and `window`.
        drop_path_rate: Stochastic depth of the last block; it rises linearly from 0.
        **kwargs: The other arguments of `PreResNet`.
    """

    def __init__(
        self,
        blocks: Sequence[int] = (3, 4, 6, 4),
        channels: Sequence[int] = (256, 512, 1024, 2048),
        bottleneck: bool = True,
        msa: Sequence[int] | None = None,
        heads: Sequence[int] = HEADS,
        window: int | None = None,
        img_size: int | tuple[int, int] = 224,
        drop_path_rate: float = 0.0,
        **kwargs: Any,
    ) -> None:
        small = is_small(img_size)
        msa = (FEW if small else MANY) if msa is None else tuple(msa)
        _check(tuple(blocks), msa, tuple(heads))
        super().__init__(
            blocks, channels, bottleneck, img_size=img_size, drop_path_rate=drop_path_rate, **kwargs
        )
        window = (4 if small else 7) if window is None else window
        for index, stage in enumerate(self.stages):
            layers = stage.get_submodule("blocks")
            assert isinstance(layers, nn.Sequential)
            for place in msa_places(blocks[index], msa[index]):
                size = make_divisible(channels[index])  # as timm makes its Conv blocks
                layers[place] = MSABlock(
                    size,
                    heads[index],
                    window,
                    width=size // 4 if bottleneck else size,
                    drop_path=drop_path_rate * (sum(blocks[:index]) + place) / max(sum(blocks) - 1, 1),
                )

    def no_weight_decay(self) -> set[str]:
        """The tables of relative positions, as timm has it for Swin."""
        return {name for name, _ in self.named_parameters() if name.endswith("relative_position_bias_table")}


def msa_places(blocks: int, msa: int) -> list[int]:
    """Which blocks of a stage are MSAs: every other one, the last included."""
    return list(range(blocks - 2 * msa + 1, blocks, 2))


def _check(blocks: tuple[int, ...], msa: tuple[int, ...], heads: tuple[int, ...]) -> None:
    if not len(blocks) == len(msa) == len(heads):
        raise CannotBuild(
            f"blocks {blocks}, msa {msa} and heads {heads} are not for the same number of stages; give one number "
            "per stage, e.g. blocks=(3, 4, 6, 4), msa=(0, 1, 1, 2), heads=(3, 6, 12, 24)"
        )
    room = tuple(length // 2 for length in blocks)
    if any(not 0 <= count <= most for count, most in zip(msa, room, strict=True)):
        raise CannotBuild(
            f"msa {msa} in stages of {blocks} blocks: each MSA follows a Conv block; give at least 0 and at most {room}"
        )


for _name, _sizes in MODELS.items():
    register(__name__, _name, partial(build, AlterNet, _name, _sizes))
