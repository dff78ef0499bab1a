"""What a classifier says, and the average of what several say, in probability space.

    log p(y | x) = log sum_k w_k softmax(logits_k)_y        sum_k w_k = 1
                 = logsumexp_k(log w_k + log_softmax(logits_k)_y)

The logarithm of a probability is itself a logit: softmax gives the average back, cross-entropy its negative
log-likelihood. Classes are axis 1: (N, classes) and (N, classes, H, W) alike.
"""

import math

import torch
from torch import Tensor

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
