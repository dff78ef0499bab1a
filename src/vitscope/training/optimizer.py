"""timm's optimiser and schedule, as a recipe wants them."""

import inspect
from typing import Any

import torch
from timm.optim import create_optimizer_v2, get_optimizer_class
from timm.optim._param_groups import param_groups_layer_decay
from timm.scheduler import create_scheduler_v2
from timm.scheduler.scheduler import Scheduler
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vitscope.core.errors import VitscopeError
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
    """A linear warm-up, then half a cosine or the recipe's milestones; `steps` is the number per epoch."""
    schedule, _ = create_scheduler_v2(
        optimizer,
        sched="multistep" if recipe.milestones else "cosine",
        num_epochs=recipe.epochs,
        warmup_epochs=recipe.warmup_epochs,  # type: ignore[arg-type]  # a part of an epoch will do
        warmup_prefix=recipe.warmup_adds,
        warmup_lr=min(recipe.warmup_lr, recipe.peak_lr),
        min_lr=min(recipe.min_lr, recipe.peak_lr),
        decay_milestones=[share * recipe.epochs for share in recipe.milestones],  # type: ignore[misc]
        decay_rate=recipe.decay_rate,
        step_on_epochs=False,
        updates_per_epoch=steps,
    )
    return schedule


def _groups(model: nn.Module, recipe: Recipe) -> Any:
    if recipe.layer_decay is None:
        # given a model, timm spares biases, norms and tokens
        return [p for p in model.parameters() if p.requires_grad] if recipe.decay_all else model
    spared: set[str] = getattr(model, "no_weight_decay", set)()
    groups = param_groups_layer_decay(
        model,
        weight_decay=recipe.weight_decay,
        no_weight_decay_list=() if recipe.decay_all else spared,
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
