"""Whether saved moments are those of an optimiser: of each parameter every tensor, in its shape and type."""

import copy
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.core.errors import BadResult

Kinds = dict[str, tuple[tuple[int, ...], torch.dtype]]  # shape and type of each tensor of a parameter


def check_moments(
    optimizer: torch.optim.Optimizer, moments: Mapping[int, Mapping[str, Any]], source: str
) -> None:
    """Refuse moments that the optimiser would not have made.

    Args:
        optimizer: Built as the one that the moments are of.
        moments: By the number of the parameter and by name; numbers that are no tensors are not looked at.
        source: Names them in the message.
    """
    places = [(group, parameter) for group in optimizer.param_groups for parameter in group["params"]]
    known: dict[Any, Kinds] = {}
    for index, values in moments.items():
        if not 0 <= index < len(places):
            raise _refusal(source, f"it has moments of parameter {index} of {len(places)}")
        group, parameter = places[index]
        key = (id(group), tuple(parameter.shape), parameter.dtype)
        if key not in known:
            known[key] = _kinds(optimizer, group, parameter)
        for name, (shape, dtype) in known[key].items():
            value = values.get(name)
            if not isinstance(value, Tensor):
                raise _refusal(source, f"it lacks '{name}' of parameter {index}")
            if tuple(value.shape) != shape or value.dtype != dtype:
                seen = f"{value.dtype} {tuple(value.shape)}"
                raise _refusal(source, f"'{name}' of parameter {index} is {seen}, expected {dtype} {shape}")


def _kinds(optimizer: torch.optim.Optimizer, group: dict[str, Any], parameter: Tensor) -> Kinds:
    """What the optimiser keeps of such a parameter, seen by letting a copy of it do a step; nothing if it cannot."""
    stand_in = nn.Parameter(torch.zeros(parameter.shape, dtype=parameter.dtype))
    stand_in.grad = torch.zeros_like(stand_in)
    trial = copy.copy(optimizer)
    trial.state = defaultdict(dict)
    trial.param_groups = [{**group, "params": [stand_in]}]
    try:
        trial.step()
    except (
        Exception
    ):  # whatever an optimiser that cannot be copied so raises; then its moments are taken as they are
        return {}
    kept = trial.state[stand_in].items()
    return {name: (tuple(value.shape), value.dtype) for name, value in kept if isinstance(value, Tensor)}


def _refusal(source: str, problem: str) -> BadResult:
    return BadResult(
        f"{source} does not fit the optimiser here: {problem}; give the recipe it was made with, copy it again, or "
        "give another --out"
    )
