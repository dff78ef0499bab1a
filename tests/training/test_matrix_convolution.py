"""Convolutions as matrix products give what convolutions give."""

import copy

import pytest
import torch
from torch import nn

from vitscope.training.matrix_convolution import MatrixConv2d

DOUBLE = torch.float64


def pair(*options, **more) -> tuple[nn.Conv2d, nn.Conv2d]:
    torch.manual_seed(0)
    plain = nn.Conv2d(3, 4, *options, **more).to(DOUBLE).to(memory_format=torch.channels_last)
    other = copy.deepcopy(plain)
    MatrixConv2d.replace(other)
    return plain, other


def gradients(convolution: nn.Conv2d, x: torch.Tensor) -> list[torch.Tensor]:
    y = convolution(x)
    weights = torch.linspace(-1, 1, y.numel(), dtype=DOUBLE).view_as(y)
    return [y, *torch.autograd.grad((y * weights).sum(), [x, *convolution.parameters()])]


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("stride", [1, 2, (2, 1)])
@pytest.mark.parametrize("kernel", [1, 2, 3, (3, 1)])
@pytest.mark.parametrize("size", [(1, 1), (2, 2), (1, 3), (4, 5)])
def test_outputs_and_gradients_are_those_of_the_convolution(size, kernel, stride, padding) -> None:
    smallest = [side + 2 * padding for side in size]
    kernels = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    if any(side < taps for side, taps in zip(smallest, kernels, strict=True)):
        with pytest.raises(RuntimeError, match="size"):
            pair(kernel, stride, padding)[0](torch.zeros(1, 3, *size, dtype=DOUBLE))
        return
    plain, other = pair(kernel, stride, padding)
    x = torch.randn(2, 3, *size, dtype=DOUBLE, requires_grad=True)
    for expected, found in zip(gradients(plain, x), gradients(other, x), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_second_derivatives_are_there() -> None:
    """Hessian monitors look at a model while it trains."""
    _, other = pair(3, 1, 1)
    x = torch.randn(2, 3, 2, 2, dtype=DOUBLE, requires_grad=True)
    assert torch.autograd.gradgradcheck(
        lambda x, weight: torch.func.functional_call(other, {"weight": weight}, (x,)), (x, other.weight)
    )


def test_only_taps_that_meet_a_point_have_a_gradient_and_it_lies_as_the_weight_does() -> None:
    _, other = pair(3, 1, 1)
    other(torch.randn(2, 3, 1, 1, dtype=DOUBLE)).sum().backward()
    assert other.weight.grad.stride() == other.weight.stride()
    inside = torch.zeros(3, 3, dtype=torch.bool)
    inside[1, 1] = True
    assert bool((other.weight.grad[..., inside] != 0).all())
    assert bool((other.weight.grad[..., ~inside] == 0).all())


@pytest.mark.parametrize(
    ("convolution", "can"),
    [
        (nn.Conv2d(4, 4, 3, padding=1), True),
        (nn.Conv2d(4, 4, 3, groups=2), False),
        (nn.Conv2d(4, 4, 3, dilation=2), False),
        (nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), False),
        (nn.Conv2d(4, 4, 3, padding="same"), False),
        (nn.Linear(4, 4), False),
        (type("Own", (nn.Conv2d,), {})(4, 4, 3), False),  # may compute something else
    ],
)
def test_what_it_stands_for(convolution: nn.Module, can: bool) -> None:
    assert MatrixConv2d.can_replace(convolution) == can


def test_it_leaves_nothing_behind() -> None:
    plain, other = pair(3, 1, 1)
    other(torch.zeros(1, 3, 2, 2, dtype=DOUBLE))
    assert isinstance(
        copy.deepcopy(other), MatrixConv2d
    )  # so an average of the weights computes the same way
    other.restore()
    assert type(other) is nn.Conv2d
    assert other.__dict__.keys() == plain.__dict__.keys()
