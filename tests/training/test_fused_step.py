"""A fused step over channels last is the step over the same numbers in the usual order."""

import copy

import pytest
import torch
from torch import nn

from vitscope.training.fused_step import seen_as_in_memory


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.Flatten(), nn.Linear(16, 2))


def take_steps(model: nn.Module, optimizer: torch.optim.Optimizer, n: int) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(n):
        optimizer.zero_grad(set_to_none=True)
        model(torch.randn(4, 3, 4, 4, generator=generator)).square().mean().backward()
        with seen_as_in_memory(optimizer):
            optimizer.step()


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_steps_are_those_of_the_plain_optimiser_over_contiguous_weights(kind) -> None:
    options = {"lr": 0.01, **({"momentum": 0.9} if kind is torch.optim.SGD else {})}
    plain = net()
    last = copy.deepcopy(plain).to(memory_format=torch.channels_last)
    take_steps(plain, kind(plain.parameters(), fused=False, foreach=False, **options), 5)
    optimizer = kind(last.parameters(), fused=True, **options)
    strides = [parameter.stride() for parameter in last.parameters()]
    take_steps(last, optimizer, 5)
    for expected, found in zip(plain.parameters(), last.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert [parameter.stride() for parameter in last.parameters()] == strides
    for parameter in last.parameters():
        for value in optimizer.state[parameter].values():
            assert value.dim() == 0 or (value.shape, value.stride()) == (parameter.shape, parameter.stride())


def test_nothing_inside_has_channels_last_and_everything_is_back_after_an_error() -> None:
    model = net().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    take_steps(model, optimizer, 1)
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def interrupted() -> None:
        with seen_as_in_memory(optimizer):
            assert all(parameter.is_contiguous() for parameter in model.parameters())
            assert all(parameter.grad.is_contiguous() for parameter in model.parameters())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_optimisers_that_are_not_fused_are_left_alone() -> None:
    model = net().to(memory_format=torch.channels_last)
    with seen_as_in_memory(torch.optim.AdamW(model.parameters(), fused=False)):
        assert not model[0].weight.is_contiguous()
