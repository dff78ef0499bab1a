"""What a classifier says, and the average of what several say, in probability space.

    log p(y | x) = log sum_k w_k softmax(logits_k)_y        sum_k w_k = 1
                 = logsumexp_k(log w_k + log_softmax(logits_k)_y)

The logarithm of a probability is itself a logit: softmax gives the average back, cross-entropy its negative
log-likelihood. Classes are axis 1: (N, classes) and (N, classes, H, W) alike.

Which tokens of its last stream a model's head reads.

Found by trial: a token is read if the output is NaN when the token is. Unlike a gradient this does not depend on the
weights, not even on weights that are zero.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from vitscope.anatomy import Dissection, Tap, Unit, preserved
from vitscope.anatomy.taps.map_view import MapView
from vitscope.anatomy.watch.example import example_batch
from vitscope.anatomy.watch.one_forward import examined_output
from vitscope.surgery.tools.image_tokens import ImageTokens, image_tokens
from vitscope.surgery.tools.record import CannotOperate

CLASS_AXIS = 1


class Averaging(nn.Module):
    """Lets a model say the average of several answers: over passes, over frames or over models."""

    over: ClassVar[Literal["passes", "frames", "models"]]


def averages_over(model: nn.Module) -> set[str]:
    """What the answers of a model, or of a part of it, are averages over."""
    return {module.over for module in model.modules() if isinstance(module, Averaging)}


def log_probabilities(logits: Tensor) -> Tensor:
    """Log-softmax over the classes, at least in single precision."""
    return logits.log_softmax(CLASS_AXIS, dtype=torch.promote_types(logits.dtype, torch.float32))


def log_average(log_probability: Tensor, log_weights: Tensor | None = None) -> Tensor:
    """Logarithm of the average over axis 0 of probabilities given by their logarithms.

    Args:
        log_probability: (K, N, classes, ...).
        log_weights: (K,), of weights that sum to one; None: the same for all.
    """
    if log_weights is None:
        return log_probability.logsumexp(0) - math.log(len(log_probability))
    shape = (-1, *(1 for _ in log_probability.shape[1:]))
    return (log_probability + log_weights.view(shape)).logsumexp(0)


@dataclass(frozen=True)
class Readout:
    """What the head reads of the stream after the last unit."""

    unit: Unit
    tokens: ImageTokens
    prefix: tuple[int, ...]  # where the prefix tokens stand among an image's tokens
    read: tuple[int, ...]  # those of them that the head reads
    reads_patches: bool


def head_reads(body: Dissection, model: nn.Module, example: Any = None) -> Readout | None:
    """What the head reads of the last stream that is a map with prefix tokens; None where it has none."""
    mapped = [unit for unit in body.parts.mapped if unit.residual]
    unit = mapped[-1] if mapped else None
    if unit is None or unit.view is None or not unit.prefix_tokens:
        return None
    tokens = image_tokens(body, body.segment(unit).end)
    if tokens is None or len(tokens.token_axes) != 1 or tokens.parts_per_image != 1:
        return None
    images = example_batch(model, example)
    if images.device.type == "meta":
        raise CannotOperate(
            "what the head reads cannot be found out on the meta device; build the model with weights"
        )
    patches = _patches(unit.view)
    prefix = tuple(i for i in range(len(patches) + unit.prefix_tokens) if i not in set(patches))

    def matters(which: Sequence[int]) -> bool:
        return _output_is_nan(body, model, images, unit, tokens, which)

    read = tuple(i for i in prefix if matters([i]))
    return Readout(unit, tokens, prefix, read, matters(patches))


def _patches(view: MapView) -> list[int]:
    return list(range(view.shape[1] * view.shape[2])) if view.order is None else view.order.tolist()


def _output_is_nan(
    body: Dissection, model: nn.Module, images: Tensor, unit: Unit, tokens: ImageTokens, which: Sequence[int]
) -> bool:
    """Whether NaN in these tokens after `unit` reaches the output."""

    def poison(stream: Tensor) -> Tensor:
        index = torch.tensor(which, device=stream.device)
        return stream.index_fill(tokens.token_axes[0], index, float("nan"))

    with preserved(model), torch.no_grad(), Tap(model, body.parts, units=[], edit={unit.name: poison}):
        return any(
            bool(output.isnan().any()) for output in examined_output(model, model(images), len(images))
        )
