"""Models that tests name as package.module:factory."""

from typing import Any

import timm
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
