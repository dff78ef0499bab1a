"""An optimiser's step over weights with the channels last, without copies.

torch's fused steps walk through memory, and make a contiguous copy of every tensor that does not lie that way: four for
each weight of a convolution with the channels last. Inside, such tensors appear as what they are in memory: contiguous
ones, whose sides come in another order. To a step, which treats every number by itself, that order means nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_AS_IN_MEMORY, _AS_BEFORE = (0, 2, 3, 1), (0, 3, 1, 2)


@contextmanager
def seen_as_in_memory(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Inside, a fused optimiser's parameters, gradients and states with the channels last are contiguous."""
    fused = [group["params"] for group in optimizer.param_groups if group.get("fused")]
    turned = [parameter for group in fused for parameter in group if _has_channels_last(parameter)]
    for parameter in turned:
        _turn(optimizer, parameter, _AS_IN_MEMORY)
    try:
        yield
    finally:
        for parameter in turned:
            _turn(optimizer, parameter, _AS_BEFORE)


def _has_channels_last(parameter: nn.Parameter) -> bool:
    return (
        parameter.dim() == 4
        and not parameter.is_contiguous()
        and parameter.is_contiguous(memory_format=torch.channels_last)
    )


def _turn(optimizer: torch.optim.Optimizer, parameter: nn.Parameter, order: tuple[int, ...]) -> None:
    gradient, parameter.grad = parameter.grad, None
    parameter.data = parameter.data.permute(order)
    if gradient is not None:
        parameter.grad = gradient.permute(order)
    state = optimizer.state.get(parameter, {})
    for name, value in state.items():
        if isinstance(value, Tensor) and value.dim() == 4:
            state[name] = value.permute(order)
