"""Models of a user's own, for `package.module:factory`."""

import timm
from torch import Tensor, nn


class NeedsValues(nn.Module):
    """One convolution, whose pass looks at numbers and not only at shapes."""

    def __init__(self, num_classes: int = 4) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, num_classes, 3)

    def forward(self, images: Tensor) -> Tensor:
        scale = images.abs().max().item()
        return self.conv(images / scale if scale > 0 else images).mean((2, 3))


def vit_of_64(num_classes: int = 4) -> nn.Module:
    """Made for images of 64 pixels; its `pretrained_cfg` goes on saying 224."""
    return timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=num_classes)
