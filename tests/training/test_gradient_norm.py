"""The norm of all gradients, and whether they are finite."""

import math

import timm
import torch
from torch import nn

from vitscope.training.divergence import are_finite, gradient_norm
from vitscope.training.layout import lay_out


def plain_norm(model: nn.Module) -> float:
    return sum(float(p.grad.double().square().sum()) for p in model.parameters() if p.grad is not None) ** 0.5


def test_it_is_the_norm_of_everything() -> None:
    torch.manual_seed(0)
    model = timm.create_model("resnet18", num_classes=10)
    model.layer1.requires_grad_(False)
    lay_out("auto", model, torch.device("cpu"))
    model(torch.randn(4, 3, 32, 32)).square().mean().backward()
    expected = plain_norm(model)
    assert abs(float(gradient_norm(model)) - expected) < 1e-5 * expected


def test_one_number_that_is_none_is_seen_wherever_it_is() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    model(torch.randn(5, 3)).sum().backward()
    for parameter in model.parameters():
        kept = parameter.grad.clone()
        parameter.grad.view(-1)[-1] = torch.inf
        assert not bool(gradient_norm(model).isfinite())
        parameter.grad.copy_(kept)
    assert bool(gradient_norm(model).isfinite())


def test_every_number_of_many_tensors_counts() -> None:
    tensors = [torch.full((3, 4), 3e38), torch.zeros(2, dtype=torch.long), torch.zeros(0)]
    assert are_finite(tensors)
    tensors[0][2, 3] = -math.inf
    assert not are_finite(tensors)
