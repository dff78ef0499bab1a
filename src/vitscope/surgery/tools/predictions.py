"""What a classifier says, and the average of what several say, in probability space.

    log p(y | x) = log sum_k w_k softmax(logits_k)_y        sum_k w_k = 1
                 = logsumexp_k(log w_k + log_softmax(logits_k)_y)

The logarithm of a probability is itself a logit: softmax gives the average back, cross-entropy its negative
log-likelihood. Classes are axis 1: (N, classes) and (N, classes, H, W) alike.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from vitscope.anatomy import preserved
from vitscope.anatomy.watch.example import example_batch
from vitscope.core.outputs import Place, place_of_scores, with_class_scores

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
    """Logarithm of the average over axis 0 of probabilities given by their logarithms (K, N, classes, ...); its weights
    (K,) sum to one, and are the same for all if not given."""
    if log_weights is None:
        return log_probability.logsumexp(0) - math.log(len(log_probability))
    shape = (-1, *(1 for _ in log_probability.shape[1:]))
    return (log_probability + log_weights.view(shape)).logsumexp(0)


def with_average(output: Any, own: Tensor, said: Sequence[Tensor]) -> Any:
    """An output with the average of all that was `said` in the place of its own class scores."""
    average = log_average(torch.stack([log_probabilities(logits) for logits in said]))
    return with_class_scores(output, own, average.to(own.dtype))


def place_of_answers(model: nn.Module, example: Any) -> Place | None:
    """Where the class scores are in what the model returns, as a graft around it sees it."""
    images = example_batch(model, example)
    with preserved(model), torch.no_grad():
        return place_of_scores(model, model.forward(images))
