"""AlterNet: a pre-activation ResNet whose stages end in MSA blocks ("How Do Vision Transformers Work?", section 4).

    stage = Conv x (n - 2m), then (Conv, MSA) x m        n blocks of which m are MSAs
    MSA block: x + attention(norm(conv1x1(gelu(norm(x)))))        the attention is in windows, see `window_attention`

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
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from timm.layers import DropPath
from timm.models import generate_default_cfgs
from torch import Tensor, nn

from vitscope.models.errors import CannotBuild
from vitscope.models.zoo.preresnet import BASIC, BOTTLENECK, MINI, PreResNet, build, configuration
from vitscope.models.zoo.registration import is_small, register, weight_file
from vitscope.models.zoo.window_attention import WindowAttention

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


class PointConv2d(nn.Conv2d):
    """A 1x1 convolution without bias, as a matrix product where the map lies a point per row (channels_last)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The same numbers either way; on maps of few points the product is faster on a CPU."""
        if not x.is_contiguous(memory_format=torch.channels_last):
            return super().forward(x)
        return F.linear(x.permute(0, 2, 3, 1), self.weight.flatten(1)).permute(0, 3, 1, 2)


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
        self.conv = PointConv2d(channels, width)
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
                size = channels[index]
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
