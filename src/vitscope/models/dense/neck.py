"""Between the maps of a backbone and a head that wants a pyramid: each map half as large as the one before.

A hierarchical backbone has one. The four maps of a ViT are of one size; as in the UperNets published on ViTs (BEiT's,
and what followed it), they become 4, 2, 1 and 1/2 times as large:

    4x    transposed 2x2 convolution, norm, GELU, transposed 2x2 convolution
    2x    transposed 2x2 convolution
    1x    as it is
    1/2x  the largest of 2x2 points
"""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

SCALES = (4.0, 2.0, 1.0, 0.5)


class PyramidNeck(nn.Module):
    """Four maps of one size and width as a pyramid; `norm` makes a norm over so many channels."""

    def __init__(self, channels: int, norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> None:
        super().__init__()
        self.levels = nn.ModuleList(
            [
                nn.Sequential(_doubled(channels), norm(channels), nn.GELU(), _doubled(channels)),
                _doubled(channels),
                nn.Identity(),
                nn.MaxPool2d(2, 2, ceil_mode=True),
            ]
        )

    def forward(self, *maps: Tensor) -> tuple[Tensor, ...]:
        """From the largest to the smallest."""
        return tuple(level(one) for level, one in zip(self.levels, maps, strict=True))


class NoNeck(nn.Module):
    """Stands where nothing has to be done: the maps are a pyramid."""

    def forward(self, *maps: Tensor) -> tuple[Tensor, ...]:
        """The same maps."""
        return maps


def strides_after(strides: Sequence[float], plain: bool) -> tuple[float, ...]:
    """Pixels between the points of each level of the pyramid, of those of the maps."""
    if not plain:
        return tuple(strides)
    return tuple(stride / scale for stride, scale in zip(strides, SCALES, strict=True))


def _doubled(channels: int) -> nn.Module:
    return nn.ConvTranspose2d(channels, channels, 2, stride=2)
