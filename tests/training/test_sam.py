"""Sharpness-aware minimisation against a few lines of plain float64 code."""

import copy

import pytest
import torch
from torch import nn

from vitscope.training.optimizer import sharpness_ascent

DOUBLE = torch.float64


def net(norm: bool = True) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Linear(5, 7), *([nn.BatchNorm1d(7)] if norm else []), nn.Tanh(), nn.Linear(7, 3)]
    return nn.Sequential(*layers).double()


def flat(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([t.flatten() for t in tensors])


def test_parameters_stand_rho_away_up_the_gradient() -> None:
    model, x = net(norm=False), torch.randn(6, 5, dtype=DOUBLE)
    model(x).square().mean().backward()
    gradient = flat([p.grad.clone() for p in model.parameters()])
    before = flat([p.detach().clone() for p in model.parameters()])
    with sharpness_ascent(model, 0.3, float(gradient.norm())):
        inside = flat([p.detach().clone() for p in model.parameters()])
        assert all(p.grad is None for p in model.parameters())
    torch.testing.assert_close(inside, before + 0.3 * gradient / gradient.norm(), rtol=1e-12, atol=1e-14)
    assert torch.equal(flat([p.detach() for p in model.parameters()]), before)


def test_gradient_is_that_of_the_shifted_loss_and_statistics_move_once() -> None:
    model, x = net(), torch.randn(6, 5, dtype=DOUBLE)
    shifted, once = copy.deepcopy(model), copy.deepcopy(model)
    once(x)

    model(x).square().mean().backward()
    norm = float(flat([p.grad for p in model.parameters()]).norm())
    with sharpness_ascent(model, 0.3, norm):
        model(x).square().mean().backward()

    shifted(x).square().mean().backward()
    g = [p.grad.clone() for p in shifted.parameters()]
    total = flat(g).norm()
    shifted.zero_grad()
    with torch.no_grad():
        for p, d in zip(shifted.parameters(), g, strict=True):
            p += 0.3 * d / total
    shifted(x).square().mean().backward()
    for p, q in zip(model.parameters(), shifted.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-11, atol=1e-13)
    for b, c in zip(model.buffers(), once.buffers(), strict=True):
        assert torch.equal(b, c)


def test_everything_is_back_after_an_error_and_a_gradient_of_zero_moves_nothing() -> None:
    model = net()
    (model(torch.randn(6, 5, dtype=DOUBLE)).sum() * 0).backward()
    before = {k: v.clone() for k, v in model.state_dict().items()}

    def fail_inside() -> None:
        with sharpness_ascent(model, 1.0, norm=0.0):
            assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
            model(torch.randn(6, 5, dtype=DOUBLE))
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail_inside()
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
