"""Weights in another order in memory."""

import torch
from torch import nn

from vitscope.core.tensors import arrange


def test_convolutions_over_maps_are_laid_out_and_others_stay() -> None:
    model = nn.ModuleList([nn.Conv2d(3, 4, 3), nn.Conv3d(3, 4, 3), nn.Linear(3, 4)])
    before = [parameter.clone() for parameter in model.parameters()]
    arrange(model, torch.channels_last)
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert not model[0].weight.is_contiguous()
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    arrange(model, torch.contiguous_format)
    assert all(parameter.is_contiguous() for parameter in model.parameters())
