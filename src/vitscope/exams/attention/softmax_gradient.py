"""How steep the softmax of attention is: it is steepest where attention is uniform.

For one row of attention a = softmax(λ s) over N keys the Jacobian is J = λ (diag(a) - a aᵀ). It is symmetric and
positive semi-definite, so its nuclear norm is its trace,

    ||J||_* = λ sum_j (a_j - a_j²) = λ (1 - sum_j a_j²),        at most λ (1 - 1/N), at a_j = 1/N

`gradient` is the mean of 1 - sum_j a_j² over queries (λ = 1: the scale of the scores, usually 1/sqrt(d), is the same
for every row and leaves the comparison alone), `share` is gradient / (1 - 1/N), the mean of 1 - 1/N where
queries see different numbers of keys. Means are over images, intervals too.
"""

import torch
from torch import Tensor

from vitscope.anatomy import AttentionMap, Unit
from vitscope.engine.heads import HeadMoments, geometry, visible_keys
from vitscope.engine.single_exam import single_exam
from vitscope.findings.softmax_gradient import QUANTITIES, SoftmaxGradientResult


def nuclear_norm(probabilities: Tensor) -> Tensor:
    """Of the softmax Jacobian, per row of probabilities (..., keys), for scores of scale 1."""
    return 1 - torch.linalg.vector_norm(probabilities, dim=-1).square()


class SoftmaxGradientAccumulator(HeadMoments):
    """Collects the mean `nuclear_norm` of every MSA's softmax over images."""

    result = SoftmaxGradientResult
    quantities = QUANTITIES

    @staticmethod
    def measure_heads(unit: Unit, seen: AttentionMap, n_images: int) -> Tensor:
        """Mean over the queries of each image and head."""
        norm = nuclear_norm(seen.probabilities.float())
        norm = norm.unflatten(0, (n_images, -1))  # (N, windows, heads, queries)
        gradient = torch.einsum("nwhq,wq->nh", norm, geometry(unit, seen).asking.to(norm))
        largest = float((1 - 1 / visible_keys(unit)).mean()) or torch.nan
        return torch.stack([gradient, gradient / largest], 2)


softmax_gradient = single_exam(
    SoftmaxGradientAccumulator, "the slope of `model`'s attention softmax on `data`"
)
