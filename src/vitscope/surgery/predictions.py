"""What a classifier says, and the average of what several say, in probability space.

    log p(y | x) = log sum_k w_k softmax(logits_k)_y        sum_k w_k = 1
                 = logsumexp_k(log w_k + log_softmax(logits_k)_y)

The logarithm of a probability is itself a logit: softmax gives the average back, cross-entropy its negative
log-likelihood. Classes are axis 1: (N, classes) and (N, classes, H, W) alike.
"""

import math
from typing import Any

import torch
from torch import Tensor

from vitscope.anatomy.watch import main_output
from vitscope.errors import UnsupportedModel

CLASS_AXIS = 1


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


def logits_of(output: Any) -> Tensor:
    """The one prediction in what a model returns: a tensor, or the logits of a named output."""
    found = main_output(output)
    if len(found) != 1 or found[0].dim() < 2:
        seen = ", ".join("x".join(map(str, t.shape)) for t in found) or "no tensor"
        raise UnsupportedModel(
            f"the model returns {seen}; expected one (images, classes, ...) tensor; wrap it so that it returns logits"
        )
    return found[0]


def with_logits(output: Any, logits: Tensor) -> Any:
    """The same output with other logits in it."""
    old = logits_of(output)
    if isinstance(output, Tensor):
        return logits
    if isinstance(output, dict):
        for key in [key for key, value in output.items() if value is old]:
            output[key] = logits
        return output
    changed = [logits if value is old else value for value in output]
    return type(output)(*changed) if hasattr(output, "_fields") else type(output)(changed)
