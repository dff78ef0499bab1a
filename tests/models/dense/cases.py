"""Small dense models that several tests share: made once, never changed."""

import functools

import torch
from torch import Tensor, nn

import vitscope as vs

SHORT = {"vit_mini": {"depth": 4}, "resnet_mini": {}, "swin_mini": {}, "pit_mini": {}, "alternet_mini": {}}


def make(name: str, seed: int = 0, **arguments) -> nn.Module:
    """A dense model in evaluation mode, the same whenever it is made."""
    torch.manual_seed(seed)
    backbone = SHORT.get(name.partition(":")[2], {})
    given = {"num_classes": 3, "channels": 8, **backbone, **arguments}
    return vs.create_model(name, **given).eval()


@functools.cache
def shared(name: str, **arguments) -> nn.Module:
    return make(name, **arguments)


def images(count: int = 2, size: tuple[int, int] = (32, 32), seed: int = 1) -> Tensor:
    return torch.randn(count, 3, *size, generator=torch.Generator().manual_seed(seed))
