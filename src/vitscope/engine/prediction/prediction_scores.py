"""How a prediction is scored.

For image i with label y, probabilities p = softmax(logits), confidence c = max p and prediction argmax p:

    accuracy = mean of [prediction = y]        top5  = mean of [y among the 5 largest]
    nll      = mean of -log p_y                brier = mean of sum_k (p_k - [k = y])^2, from 0 to 2
    ece      = sum_b |sum_{i in b} (c_i - [prediction_i = y_i])| / n

with 15 confidence bins b = (lo, hi] of equal width, so that a confidence of exactly 1 is in the last one.

Temperature scaling: one number that divides all logits, fitted on one half of the images, judged on the other.

    T = argmin over t of the mean of -log softmax(z_i / t)_{y_i} over the fitting half

Which half an image belongs to is decided by a hash of the seed and its place in the data. To do all this in one pass,
the sums of both halves are kept for 97 temperatures 2^(k/16) from 1/8 to 8: T is found to within 2.2 %, and the
likelihood is flat around it. Each bootstrap replicate fits its own T: intervals contain the uncertainty of the fit.
"""

import hashlib
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.core.arguments import Positive
from vitscope.core.errors import BadData, VitscopeError
from vitscope.core.statistics import correlation, difference_of, percentile_interval
from vitscope.engine.prediction.calibration import error_interval, least_error
from vitscope.findings.prediction import SCALED_QUANTITIES, Scaling
from vitscope.results.condition_rows import BINS


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


Temperature = Positive | Literal["fit"] | None
TEMPERATURES = 2.0 ** (np.arange(-48, 49) / 16)
UNSCALED = int(np.flatnonzero(TEMPERATURES == 1.0)[0])
_ECE, _ECE_CHANGE = SCALED_QUANTITIES.index("scaled_ece"), SCALED_QUANTITIES.index("ece_change")


def in_fitting_half(indices: Tensor, seed: int) -> Tensor:
    """(N,) bool."""
    hashes = (hashlib.blake2b(f"{seed} {i}".encode(), digest_size=1).digest()[0] for i in indices.tolist())
    return torch.tensor([bool(byte & 1) for byte in hashes], dtype=torch.bool)


def find_scaling(fitting: Tensor, reporting: Tensor, filled: Tensor, n_fitted: int, n: int) -> Scaling:
    """Fit and judge, plain and in every replicate.

    Args:
        fitting: (1 + replicates, 1 + temperatures), weight and summed nll of the fitting half.
        reporting: (1 + replicates, 1 + temperatures x (3 + bins)), weight, then of each temperature summed nll, brier,
            confidence and the calibration gap of each bin, of the other half.
        filled: (temperatures, 2 x bins), images of the other half in each bin, and right ones, plain.
        n_fitted: Images in the fitting half.
        n: Images in the other half.
    """
    if not n_fitted or not n:
        raise VitscopeError(
            f"temperature 'fit' needs images in both halves, found {n_fitted} and {n}; use more images, or a number"
        )
    best = fitting[:, 1:].argmin(1).numpy()
    sums = reporting.numpy()
    by_temperature = sums[:, 1:].reshape(len(sums), len(TEMPERATURES), -1)
    with np.errstate(invalid="ignore", divide="ignore"):
        chosen = [by_temperature[np.arange(len(sums)), t] / sums[:, :1] for t in (best, UNSCALED)]
    scaled, plain = (np.column_stack([s[:, :3], np.abs(s[:, 3:]).sum(1)]) for s in chosen)
    change = (scaled - plain)[:, [0, 3]]
    drawn = np.column_stack([TEMPERATURES[best], scaled, change])
    empty = (fitting[:, 0].numpy() == 0) | (sums[:, 0] == 0)
    drawn[empty] = np.nan  # a replicate without a half
    low, high = (np.array(end) for end in percentile_interval(drawn[1:]))
    errors = []
    for t, gaps in zip((int(best[0]), UNSCALED), chosen, strict=True):
        count, right = filled[t].numpy().reshape(2, BINS)
        ends = error_interval(gaps[~empty, None, 3:], least_error(count, right, n)[None])
        errors.append((float(np.abs(gaps[0, 3:]).sum()), *ends))
    low[_ECE], high[_ECE] = errors[0][1:]
    together = correlation(scaled[1:, 3], plain[1:, 3])
    low[_ECE_CHANGE], high[_ECE_CHANGE] = difference_of(errors[0], errors[1], together)
    converged = bool(0 < best[0] < len(TEMPERATURES) - 1)
    return Scaling(n_fitted, n, converged, drawn[0], low, high, drawn[1:])
