"""How a prediction is scored.

For image i with label y, probabilities p = softmax(logits), confidence c = max p and prediction argmax p:

    accuracy = mean of [prediction = y]        top5  = mean of [y among the 5 largest]
    nll      = mean of -log p_y                brier = mean of sum_k (p_k - [k = y])^2, from 0 to 2
    ece      = sum_b |sum_{i in b} (c_i - [prediction_i = y_i])| / n

with 15 confidence bins b = (lo, hi] of equal width, so that a confidence of exactly 1 is in the last one.
"""

import torch
from torch import Tensor, nn

from vitscope.core.errors import BadData, VitscopeError
from vitscope.results.scores import BINS


def scores(logits: Tensor, labels: Tensor) -> Tensor:
    """(N, 5): per image, what `MEANS` are the means of; in float64."""
    log_p = logits.double().log_softmax(1)
    p = log_p.exp()
    confidence = p.max(1).values
    ranked = logits.topk(min(5, logits.shape[1]), dim=1).indices == labels[:, None]
    true = labels[:, None]
    brier = p.square().sum(1) - 2 * p.gather(1, true)[:, 0] + 1
    nll = -log_p.gather(1, true)[:, 0]
    return torch.stack([ranked[:, 0].double(), ranked.any(1).double(), nll, brier, confidence], 1)


def confidence_bins(confidence: Tensor, bins: int = BINS) -> Tensor:
    """(N, bins): one-hot bin of each confidence; bins are (lo, hi]."""
    edges = torch.arange(1, bins, dtype=torch.float64) / bins
    return nn.functional.one_hot(torch.bucketize(confidence.contiguous(), edges, right=False), bins).double()


def check_predictions(logits: Tensor, labels: Tensor, indices: Tensor) -> None:
    """Refuse what cannot be scored: no classes, labels that are none of them, or outputs that are not finite."""
    if logits.dim() != 2 or logits.shape[1] < 2:
        shape = tuple(logits.shape)
        raise VitscopeError(
            f"the model puts out {shape}, expected (images, classes); leave 'prediction' out of the exams"
        )
    classes = logits.shape[1]
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        image, label = int(indices.cpu()[outside][0]), int(labels[outside][0])
        raise BadData(
            f"image {image} has label {label}, the model has outputs 0 to {classes - 1}; "
            "give the model as many classes as the data, or correct the labels"
        )
    if not torch.isfinite(logits).all():
        image = int(indices[int((~torch.isfinite(logits)).any(1).nonzero()[0])])
        raise VitscopeError(
            f"the outputs for image {image} are not finite; check the weights and the preprocessing"
        )
