"""What the images of one place in weight space are summed up to: loss, its rise, accuracy.

The loss of an image is that of its task; NLL is what it is called here, whichever it is. Where the task counts what is
right (images, pixels, answers in part), the accuracy is what is right of all that counts,

    R = Σ r_i / Σ c_i

Its interval is Wilson's, of images that are right or wrong, or with the standard error of that ratio, which is made of
the r_i - R c_i.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitscope.core.statistics import Estimate, mean_interval, of_few, score_interval, share_interval

COLUMNS = 7  # NLL, NLL², rise, rise², right, right², right times counted


class Scores(NamedTuple):
    """How well a model does on each of n images: (n,) float64 each."""

    nll: Tensor
    right: Tensor  # how much of it the model is right about; NaN if the task counts nothing
    counted: Tensor  # out of how much


def score(found: Scores, reference: Tensor) -> Tensor:
    """(COLUMNS,) sums over the images of one place."""
    nll, right, counted = found
    rise = nll - reference
    products = (nll, nll.square(), rise, rise.square(), right, right.square(), right * counted)
    return torch.stack([product.sum() for product in products])


def summarise(sums: np.ndarray, counted: np.ndarray, yes_or_no: bool) -> dict[str, Any]:
    """Estimates `nll`, `rise` and `accuracy`, each of the shape of `sums` without its last axis.

    `counted` (n,) is what accuracies are out of, and `yes_or_no` whether images are right or wrong.
    """
    n = len(counted)
    with np.errstate(invalid="ignore", over="ignore"):  # places where the loss is not finite
        found = {
            "nll": mean_interval(sums[..., 0], sums[..., 1], n),
            "rise": mean_interval(sums[..., 2], sums[..., 3], n),
        }
    right = sums[..., 4]
    if yes_or_no:
        return {**found, "accuracy": Estimate(right / n, *share_interval(right, n))}
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN where nothing is counted
        share = right / counted.sum()
        errors = sums[..., 5] - 2 * share * sums[..., 6] + np.square(share) * np.square(counted).sum()
        error = np.sqrt(np.maximum(errors, 0.0)) / counted.sum()
        return {**found, "accuracy": Estimate(share, *score_interval(share, of_few(error, n), n))}
