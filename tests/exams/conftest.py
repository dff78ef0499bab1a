import pytest
import timm
import torch
from torch import nn

from vitscope.data import ImageData, load_data


@pytest.fixture(scope="session")
def fashion() -> ImageData:
    return load_data("fashion", split="test")


@pytest.fixture
def small_vit() -> nn.Module:
    """A vision transformer of two blocks for 32-pixel images."""
    torch.manual_seed(0)
    model: nn.Module = timm.create_model(
        "vit_tiny_patch16_224",
        img_size=32,
        patch_size=4,
        embed_dim=48,
        depth=2,
        num_heads=3,
        num_classes=10,
        init_values=0.5,
    )
    return model
