"""Pixels and inputs."""

import torch

from vitscope.data import DataConfig
from vitscope.exams.pixels import PixelSpace

CONFIG = DataConfig(input_size=(3, 4, 5), mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))


def test_both_ways_by_hand_and_back():
    space = PixelSpace(CONFIG)
    pixels = torch.rand(2, 3, 4, 5, dtype=torch.float64)
    shown = space.to_input(pixels)
    assert torch.allclose(shown[:, 1], (pixels[:, 1] - 0.4) / 0.25)
    assert torch.allclose(space.to_pixels(shown), pixels)


def test_gradients_pass():
    pixels = torch.rand(1, 3, 4, 5, requires_grad=True)
    PixelSpace(CONFIG).to_input(pixels).sum().backward()
    expected = (1 / torch.tensor([0.2, 0.25, 0.3])).view(1, 3, 1, 1).expand(1, 3, 4, 5)
    assert torch.allclose(pixels.grad, expected)
