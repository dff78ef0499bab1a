"""What is differentiated: the mean over a batch of the cross-entropy, with hard or soft targets.

    NLL(w) = 1/N sum_n - sum_c t_nc log p_nc(w),        p = softmax of the model's class scores

and beside it, in closed form, the penalty that weight decay stands for (`penalty`).
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from vitscope.anatomy.watch.one_forward import tensors_in
from vitscope.core.errors import BadData, NotFinite, VitscopeError
from vitscope.core.outputs import class_scores

_SAME = 1e-4  # kernels may round differently from call to call; a random draw changes much more


class RandomModel(VitscopeError):
    """The model answers differently when asked twice, so that it has no one Hessian."""


def scores_of_images(model: nn.Module, images: Tensor) -> Tensor:
    """(N, classes): what the model says of a batch."""
    return scores_among(model, model(images), len(images))


def scores_among(model: nn.Module, output: Any, n_images: int) -> Tensor:
    """(N, classes) in what the model returned."""
    found = class_scores(model, output, n_images)
    if found.ndim != 2:
        raise VitscopeError(
            f"{type(model).__name__} puts out {tuple(found.shape)} for {n_images} images; expected class scores "
            "(N, classes)"
        )
    return found


def cross_entropy(scores: Tensor, targets: Tensor, n_images: int | None = None) -> Tensor:
    """The sum over these images divided by `n_images` (default: their number)."""
    if targets.ndim == 1 and len(targets) == len(scores):
        if not 0 <= int(targets.min()) <= int(targets.max()) < scores.shape[1]:
            raise BadData(
                f"labels reach from {int(targets.min())} to {int(targets.max())}, the model has {scores.shape[1]} "
                f"classes; expected 0 to {scores.shape[1] - 1}"
            )
    elif targets.shape != scores.shape:
        raise BadData(
            f"targets are {tuple(targets.shape)} for class scores {tuple(scores.shape)}; expected labels "
            f"({len(scores)},) or probabilities {tuple(scores.shape)}"
        )
    if targets.is_floating_point():
        targets = targets.to(scores)
    return F.cross_entropy(scores, targets, reduction="sum") / (n_images or len(scores))


@torch.no_grad()
def check_deterministic(model: nn.Module, images: Tensor) -> None:
    """Refuse a model whose answer is drawn anew at every call (dropout that stays on, random depth).

    Raises:
        RandomModel: Two passes over the same images differ; the message names the first module that does.
    """
    first, second = scores_of_images(model, images), scores_of_images(model, images)
    scale = float(first.abs().max())
    if not math.isfinite(scale):
        raise NotFinite(
            f"the class scores of {type(model).__name__} are not finite; check the weights and the images"
        )
    difference = float((first - second).abs().max())
    if scale > 0.0 and difference <= _SAME * scale:
        return
    where = _where(model, images)
    if not where and scale == 0.0:  # a head of zeros, as some are initialised, hides what comes before it
        return
    raise RandomModel(
        f"two passes of {type(model).__name__} over the same images differ by {difference:.2g} (scores reach "
        f"{scale:.2g}){where}; a Hessian needs a model without random draws in evaluation mode: "
        "switch them off, or fix their seed inside the model"
    )


def _where(model: nn.Module, images: Tensor) -> str:
    """Which innermost module is the first to differ, in words."""
    traces: list[list[tuple[str, float]]] = [[], []]
    names = {module: name for name, module in model.named_modules() if not list(module.children())}
    for trace in traces:

        def note(
            module: nn.Module, _: object, output: object, trace: list[tuple[str, float]] = trace
        ) -> None:
            value = sum(float(t.double().abs().sum()) for t in tensors_in(output) if t.is_floating_point())
            trace.append((names[module], value))

        handles: list[RemovableHandle] = [module.register_forward_hook(note) for module in names]
        try:
            model(images)
        finally:
            for handle in handles:
                handle.remove()
    for (name, one), (_, other) in zip(*traces, strict=False):
        if abs(one - other) > 1e-5 * abs(one):
            return f", first after '{name}'"
    return ""
