"""A class for every pixel: UperNet and U-Net, with the decoders of segmentation-models-pytorch, on any backbone.

Its models take the encoders that it lists, and UperNet no ViT; its decoders take maps. Both are given a pyramid here,
whatever backbone it comes from, and what they say of it is brought to the size of the image (bilinear).
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from vitscope.core.errors import VitscopeError
from vitscope.models.dense.dense import Dense

SKIPPED = 2  # entries for the image and half of it, of which UperNet's decoder makes nothing


class SegmentationHead(nn.Module):
    """A decoder over the pyramid, and a convolution that makes class scores of what it gives."""

    def __init__(self, decoder: nn.Module, width: int, classes: int, skipped: int, kernel: int) -> None:
        super().__init__()
        self.decoder, self.skipped = decoder, skipped
        self.classifier = nn.Conv2d(width, classes, kernel, padding=kernel // 2)
        nn.init.xavier_uniform_(self.classifier.weight)  # as segmentation-models-pytorch does
        nn.init.zeros_(self.classifier.bias)  # type: ignore[arg-type]

    def forward(self, image: Tensor, *pyramid: Tensor) -> Tensor:
        """(N, classes, H, W), as large as the image."""
        scores = self.classifier(self.decoder([image] * self.skipped + list(pyramid)))
        return F.interpolate(scores, size=image.shape[-2:], mode="bilinear", align_corners=False)


class Segmenter(Dense):
    """Class scores (N, classes, H, W) of images (N, C, H, W)."""

    vitscope_task = "segmentation"
    head: nn.Module

    def __init__(
        self, backbone: nn.Module, size: tuple[int, int, int], num_classes: int, **more: Any
    ) -> None:
        super().__init__(backbone, size, **more)
        self.num_classes = num_classes

    def forward(self, images: Tensor) -> Tensor:
        """Class scores of every pixel."""
        scores: Tensor = self.head(images, *self.pyramid(images))
        return scores


class UperNet(Segmenter):
    """UperNet: pooled context of the coarsest map, a feature pyramid, and both fused; `channels` wide."""

    vitscope_least_batch = 2  # of a training

    def __init__(
        self, backbone: nn.Module, size: tuple[int, int, int], num_classes: int, channels: int = 64
    ) -> None:
        smp = _decoders("upernet")
        super().__init__(backbone, size, num_classes)
        widths = [0] * SKIPPED + list(self.channels)
        decoder = smp.upernet.decoder.UPerNetDecoder(widths, len(widths) - 1, decoder_channels=channels)
        _initialise(decoder)
        self.head = SegmentationHead(decoder, channels, num_classes, SKIPPED, kernel=1)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores of every pixel."""
        if self.training and len(images) < 2:
            raise VitscopeError(
                "UperNet pools an image to one point, of which batch norm makes nothing with 1 image; train it with at "
                "least 2 in a batch of each process"
            )
        return super().forward(images)


class UNet(Segmenter):
    """U-Net: every map of the backbone meets what comes up from the coarser ones; `channels` wide at the finest, twice
    as wide at each coarser one."""

    def __init__(
        self, backbone: nn.Module, size: tuple[int, int, int], num_classes: int, channels: int = 16
    ) -> None:
        smp = _decoders("unet")
        super().__init__(backbone, size, num_classes, levels=None)
        count = len(self.levels)
        widths = [channels * 2**up for up in reversed(range(count))]
        decoder = smp.unet.decoder.UnetDecoder([size[0], *self.channels], widths, n_blocks=count)
        _initialise(decoder)
        self.head = SegmentationHead(decoder, channels, num_classes, skipped=1, kernel=3)


def _decoders(what: str) -> Any:
    """The module of segmentation-models-pytorch that holds the decoders."""
    try:
        from segmentation_models_pytorch import decoders
    except ImportError as error:
        raise VitscopeError(
            f"{what}: needs segmentation-models-pytorch; type: pip install 'vitscope[tasks]'"
        ) from error
    return decoders


def _initialise(decoder: nn.Module) -> None:
    """The first weights that segmentation-models-pytorch gives its decoders."""
    from segmentation_models_pytorch.base.initialization import initialize_decoder

    initialize_decoder(decoder)
