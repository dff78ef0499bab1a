"""The order in which the weights of a model's convolutions lie in memory."""

import torch
from torch import nn


def arrange(model: nn.Module, layout: torch.memory_format) -> None:
    """Lay out all tensors of four sides; `Module.to` would stumble over those of 3-D convolutions, which have five."""
    model._apply(lambda tensor: tensor.contiguous(memory_format=layout) if tensor.dim() == 4 else tensor)
