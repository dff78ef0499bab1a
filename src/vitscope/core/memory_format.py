"""The order in which the weights of a model's convolutions lie in memory."""

import torch
from torch import nn


def arrange(model: nn.Module, layout: torch.memory_format) -> None:
    """Lay out all tensors of four sides; `Module.to` would stumble over those of 3-D convolutions, which have five."""
    model._apply(lambda tensor: tensor.contiguous(memory_format=layout) if tensor.dim() == 4 else tensor)


def crashes_with_channels_last(model: nn.Module) -> bool:
    """Whether a convolution of this model can end the process when it learns on a CPU with the channels last.

    PyTorch 2.15 writes beyond its memory in the backward pass of 1x1 convolutions with a stride over fewer channels
    than a vector of the CPU holds, in float32 on one thread: 2 to 7 channels where a vector holds 8; others hold 16.
    """
    return any(
        isinstance(module, nn.Conv2d)
        and module.kernel_size == (1, 1)
        and module.stride != (1, 1)
        and module.groups == 1
        and module.in_channels < 16
        for module in model.modules()
    )
