"""Real images, as a model wants them."""

import torch
from torch import Tensor, nn

import vitscope as vs
from vitscope.data import data_config, preprocess


def fashion(model: nn.Module, count: int) -> tuple[Tensor, Tensor]:
    """The first test images and their labels."""
    data = vs.load_data("fashion", split="test")
    pictures, labels = zip(*(data[i] for i in range(count)), strict=True)
    return preprocess(list(pictures), data_config(model)), torch.tensor(labels)
