"""What a classifier says, and the average of what several say, in probability space.

    log p(y | x) = log sum_k w_k softmax(logits_k)_y        sum_k w_k = 1
                 = logsumexp_k(log w_k + log_softmax(logits_k)_y)

The logarithm of a probability is itself a logit: softmax gives the average back, cross-entropy its negative
log-likelihood. Classes are axis 1: (N, classes) and (N, classes, H, W) alike.
"""

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

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
