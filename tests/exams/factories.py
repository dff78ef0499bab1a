"""Models that tests name as package.module:factory, or make in processes of their own."""

from typing import Any

import timm
import torch
from torch import nn


def tiny(pretrained: bool = False, **arguments: Any) -> nn.Module:
    """A small residual network; it has no trained weights to load."""
    model: nn.Module = timm.create_model(
        "resnet18",
        block_args={},
        channels=(8, 16, 16, 16),
        layers=(1, 1, 1, 1),
        stem_width=8,
        **{"num_classes": 10, **arguments},
    )
    return model


def small_transformer() -> nn.Module:
    """A vision transformer of one block for 32-pixel images, always the same."""
    torch.manual_seed(0)
    model: nn.Module = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=24, depth=1, num_heads=2, num_classes=10
    )
    return model


def spread_transformer() -> nn.Module:
    """The same with classes that are spread, so that some of its answers are right."""
    model = small_transformer()
    model.head.weight.data.normal_(std=0.5, generator=torch.Generator().manual_seed(1))
    return model
