"""Models of a user's own, for `package.module:factory`."""

from torch import Tensor, nn


class NeedsValues(nn.Module):
    """One convolution, whose pass looks at numbers and not only at shapes."""

    def __init__(self, num_classes: int = 4) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, num_classes, 3)

    def forward(self, images: Tensor) -> Tensor:
        scale = images.abs().max().item()
        return self.conv(images / scale if scale > 0 else images).mean((2, 3))
