"""timm's optimiser and schedule, as a recipe wants them; whether saved moments are those of such an optimiser.

Sharpness-aware minimisation learns from the gradient at the worst place nearby:

    w' = w + rho * g / ||g||,   g = gradient of the batch's loss at w;   then step from w by the gradient at w'

Both gradients are those of the whole effective batch, with the same augmentation, mixing and dropout.
"""

import copy
import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from timm.optim import create_optimizer_v2, get_optimizer_class
from timm.optim._param_groups import param_groups_layer_decay, param_groups_weight_decay
from timm.scheduler import create_scheduler_v2
from timm.scheduler.scheduler import Scheduler
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vitscope.core.errors import BadResult, VitscopeError
from vitscope.models.spared import spared_from_decay
from vitscope.recipes.recipe import Recipe

_FUSED_DEVICES = ("cpu", "cuda")


def build_optimizer(model: nn.Module, recipe: Recipe, device: torch.device) -> torch.optim.Optimizer:
    """The recipe's optimiser over the parameters that learn, fused where torch has that (not if sharded)."""
    sharded = any(isinstance(parameter, DTensor) for parameter in model.parameters())
    fused = not sharded and device.type in _FUSED_DEVICES and _can_fuse(recipe.optimizer)
    options: dict[str, Any] = {"fused": True} if fused else {}
    optimizer: torch.optim.Optimizer = create_optimizer_v2(
        _groups(model, recipe),
        opt=recipe.optimizer,
        lr=recipe.peak_lr,
        weight_decay=recipe.weight_decay,
        **options,
    )
    if fused:
        optimizer.register_load_state_dict_post_hook(_lay_out_as_parameters)
    return optimizer


def build_schedule(optimizer: torch.optim.Optimizer, recipe: Recipe, steps: int) -> Scheduler:
    """A linear warm-up, then half a cosine, a power or the recipe's milestones; `steps` is the number per epoch."""
    shape = "multistep" if recipe.milestones else "poly" if recipe.power else "cosine"
    power: dict[str, Any] = {"decay_rate": recipe.power} if recipe.power else {}  # as timm calls it
    schedule, _ = create_scheduler_v2(
        optimizer,
        sched=shape,
        num_epochs=recipe.epochs,
        warmup_epochs=recipe.warmup_epochs,  # type: ignore[arg-type]  # a part of an epoch will do
        warmup_prefix=recipe.warmup_adds,
        warmup_lr=min(recipe.warmup_lr, recipe.peak_lr),
        min_lr=min(recipe.min_lr, recipe.peak_lr),
        decay_milestones=[share * recipe.epochs for share in recipe.milestones],  # type: ignore[misc]
        **{"decay_rate": recipe.decay_rate, **power},
        step_on_epochs=False,
        updates_per_epoch=steps,
    )
    return schedule


def _groups(model: nn.Module, recipe: Recipe) -> Any:
    if recipe.layer_decay is None and recipe.decay_all:
        return [p for p in model.parameters() if p.requires_grad]
    spared = () if recipe.decay_all else spared_from_decay(model)
    if recipe.layer_decay is None:
        return param_groups_weight_decay(model, recipe.weight_decay, no_weight_decay_list=spared)
    groups = param_groups_layer_decay(
        model,
        weight_decay=recipe.weight_decay,
        no_weight_decay_list=spared,
        weight_decay_exclude_1d=not recipe.decay_all,
        layer_decay=recipe.layer_decay,
    )
    if len({group["lr_scale"] for group in groups}) == 1:
        raise VitscopeError(
            f"layer_decay is {recipe.layer_decay}, but {type(model).__name__} does not tell its layers "
            "(timm's group_matcher); leave layer_decay out, or take a timm model"
        )
    return groups


def _can_fuse(name: str) -> bool:
    made_by = get_optimizer_class(name.split("_")[-1], bind_defaults=False)
    return "fused" in inspect.signature(made_by).parameters


def _lay_out_as_parameters(optimizer: torch.optim.Optimizer) -> None:
    """Fused steps walk through memory: what was loaded must lie as the parameter does (channels last or not)."""
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                state[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


Kinds = dict[str, tuple[tuple[int, ...], torch.dtype]]  # shape and type of each tensor of a parameter


def check_moments(
    optimizer: torch.optim.Optimizer, moments: Mapping[int, Mapping[str, Any]], source: str
) -> None:
    """Refuse moments, by number of the parameter and by name, that the optimiser would not have made.

    Numbers that are no tensors are not looked at; `source` names the moments in the message.
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
    except Exception:  # of an optimiser that cannot be copied so; then its moments are taken as they are
        return {}
    kept = trial.state[stand_in].items()
    return {name: (tuple(value.shape), value.dtype) for name, value in kept if isinstance(value, Tensor)}


def _refusal(source: str, problem: str) -> BadResult:
    return BadResult(
        f"{source} does not fit the optimiser here: {problem}; give the recipe it was made with, copy it again, or "
        "give another --out"
    )


@contextmanager
def sharpness_ascent(model: nn.Module, rho: float, norm: float) -> Iterator[None]:
    """Inside, the parameters stand `rho` up their gradients, of this `norm` all together, which are cleared.

    At the end, parameters and buffers are bit for bit as before: running statistics do not see the second pass.
    """
    moved: list[Tensor] = [p for p in model.parameters() if p.grad is not None]
    gradients = [p.grad for p in moved if p.grad is not None]
    with torch.no_grad():
        kept = [(tensor, tensor.clone()) for tensor in (*moved, *model.buffers())]
    try:
        if norm > 0:
            with torch.no_grad():
                torch._foreach_add_(moved, gradients, alpha=rho / norm)
        for parameter in moved:
            parameter.grad = None
        yield
    finally:
        with torch.no_grad():
            for tensor, before in kept:
                tensor.copy_(before)
