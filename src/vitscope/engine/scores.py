"""How a prediction is scored, whether its confidence can be believed, and what a temperature does to it.

For image i with label y, probabilities p = softmax(logits), confidence c = max p and r = [argmax p = y]:

    accuracy = mean of r                       top5  = mean of [y among the 5 largest]
    nll      = mean of -log p_y                brier = mean of sum_k (p_k - [k = y])^2, from 0 to 2
    error    = sum_g |sum_{i in g} (c_i - r_i)| / n
    signed error = mean confidence - accuracy

Of equal outputs the first counts as the larger, as in argmax: coarse number types make such ties.

The groups g of the usual calibration error (ece) are 15 bins (lo, hi] of equal width, those of the adaptive error hold
equally many images. To find equally many without keeping every confidence, confidences are counted in 512 cells of
equal width in log(c / (1 - c)) from -7 to 17, which are narrow where many confidences are: next to 1. A cell that a
border falls into is divided in proportion, as if its images (whose confidences differ by less than 0.012) came in
random order.

Noise moves the gap of a group to either side, but its size only up: the error of few images is too high, and a
bootstrap's, which adds noise to noise, higher still. The interval is found by asking which true gaps would give an
error as high as the one seen. With gap m_g, its standard error s_g and noise e_g (of the bootstrap):

    low     the error sum_g max(|m_g| - k s_g, 0) of gaps that are smaller by k errors, k such that with noise
            sum_g |max(|m_g| - k s_g, 0) + e_g| reaches what was seen in 2.5 % of the replicates; 0 if gaps of 0 do
    high    97.5 % quantile of sum_g |m_g| + sign(m_g) e_g: where all gaps are real, noise raises nothing

A group whose images are all right (or all wrong) still has a standard error: at least the one it would have with two
right and two wrong answers more, shared out over all groups (as Agresti and Coull do for a share).

Temperature scaling is one number that divides all logits, fitted on one half of the images, judged on the other:

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
from vitscope.core.bootstrap import correlation, percentile_interval
from vitscope.core.errors import BadData, VitscopeError
from vitscope.core.statistics import NORMAL, Estimate, difference_of
from vitscope.findings.prediction import SCALED_QUANTITIES, Scaling
from vitscope.results.condition_rows import BINS

GROUPS = 15
CELLS = 512
HALVINGS = 20  # to a millionth of what is searched
_LOWEST, _HIGHEST = -7.0, 17.0
Temperature = Positive | Literal["fit"] | None
TEMPERATURES = 2.0 ** (np.arange(-48, 49) / 16)
UNSCALED = int(np.flatnonzero(TEMPERATURES == 1.0)[0])
_ECE, _ECE_CHANGE = SCALED_QUANTITIES.index("scaled_ece"), SCALED_QUANTITIES.index("ece_change")
WORD = 64  # bits of an int64: image i is bit i mod 64 of word i // 64, and processes add their words up


def confidence_cells(confidence: Tensor) -> Tensor:
    """(N,) cell of each confidence; those beyond the ends are in the outermost cells."""
    odds = torch.logit(confidence.double())
    place = (odds - _LOWEST) * (CELLS / (_HIGHEST - _LOWEST))
    return place.clamp(0, CELLS - 1).long()


def adaptive_gaps(weight: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """(replicates, groups): summed gap of each of the groups of equal weight, over the weight of all.

    Of each cell (cells, replicates): the images' weights, and weights times (confidence - right), summed up.
    """
    replicates = weight.shape[1]
    found = np.full((replicates, GROUPS), np.nan)
    summed = np.zeros((2, len(weight) + 1, replicates))
    np.cumsum(weight, axis=0, out=summed[0, 1:])
    np.cumsum(gap, axis=0, out=summed[1, 1:])
    shares = np.arange(GROUPS + 1) / GROUPS
    for r in range(replicates):
        total = summed[0, -1, r]
        if total > 0:
            at_borders = np.interp(shares * total, summed[0, :, r], summed[1, :, r])
            found[r] = np.diff(at_borders) / total
    return found


def adaptive_least_error(weight: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """`least_error` of the groups of equal weight; confidences are taken to be in the middle of their cells."""
    odds = _LOWEST + (np.arange(CELLS) + 0.5) * ((_HIGHEST - _LOWEST) / CELLS)
    right = np.clip(weight / (1 + np.exp(-odds)) - gap, 0.0, weight)
    n = float(weight.sum())
    by_group = adaptive_gaps(weight[:, None], right[:, None])[0] * n
    return least_error(np.full(GROUPS, n / GROUPS), by_group, n)


def least_error(count: np.ndarray, right: np.ndarray, n: float) -> np.ndarray:
    """The least standard error that the gap of a group can have, by group.

    Of (..., groups) images, or points, some are right; `n` images, or blocks, are independent.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (right / count + NORMAL**2 / (2 * n)) / (1 + NORMAL**2 / n)
        return np.nan_to_num(np.sqrt(count / count.sum(-1, keepdims=True) * share * (1 - share) / n))


def error_interval(gaps: np.ndarray, least: np.ndarray) -> tuple[float, float]:
    """95 % interval of a calibration error, or of its mean over conditions; it covers the error of the population.

    `gaps` (1 + replicates, conditions, groups) are over the weight of all images, `least` is `least_error` of each.
    """
    gaps = gaps[np.isfinite(gaps).all((1, 2))] / gaps.shape[1]
    if len(gaps) < 2:
        return np.nan, np.nan
    seen, noise = gaps[0], gaps[0] - gaps[1:]  # mirrored: what is skewed reaches to the side of the truth
    error = noise.std(0)
    lacking = np.sqrt(np.maximum((least / gaps.shape[1]) ** 2 - error**2, 0.0))
    normal = np.random.default_rng(0).standard_normal((len(noise), 1, gaps.shape[2]))
    noise = (noise + lacking * normal) * np.where(seen < 0, -1.0, 1.0)
    noise, size, error = noise.reshape(len(noise), -1), np.abs(seen).ravel(), np.hypot(error, lacking).ravel()
    total = float(size.sum())
    high = min(max(total - float(np.quantile(noise.sum(1), 0.025)), total), 1.0)
    return min(_lowest(size, error, noise, total), total), high


def _lowest(size: np.ndarray, error: np.ndarray, noise: np.ndarray, total: float) -> float:
    """The smallest sum of gaps that noise raises to `total` in 2.5 % of the replicates, by halving."""

    def reached(by: float) -> bool:
        smaller = np.maximum(size - by * error, 0.0)
        return bool(np.quantile(np.abs(smaller + noise).sum(1), 0.975) >= total)

    some = error > 0
    least, most = 0.0, float((size[some] / error[some]).max(initial=0.0))
    if reached(most):
        return float(size[~some].sum())
    for _ in range(HALVINGS):
        middle = (least + most) / 2
        least, most = (middle, most) if reached(middle) else (least, middle)
    return float(np.maximum(size - least * error, 0.0).sum())


def scores(logits: Tensor, labels: Tensor) -> Tensor:
    """(N, 5): per image, what `MEANS` are the means of; in float64."""
    log_p = logits.double().log_softmax(1)
    p = log_p.exp()
    confidence = p.max(1).values
    true = labels[:, None]
    place = rank(logits, labels)
    brier = p.square().sum(1) - 2 * p.gather(1, true)[:, 0] + 1
    nll = -log_p.gather(1, true)[:, 0]
    return torch.stack([(place == 0).double(), (place < 5).double(), nll, brier, confidence], 1)


def rank(logits: Tensor, labels: Tensor) -> Tensor:
    """(N,) how many classes come before the label, from 0 on; of equal outputs the first comes first, as in argmax."""
    own = logits.gather(1, labels[:, None])
    before = torch.arange(logits.shape[1], device=logits.device) < labels[:, None]
    return (logits > own).sum(1) + ((logits == own) & before).sum(1)


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
        errors.append(Estimate(float(np.abs(gaps[0, 3:]).sum()), *ends))
    low[_ECE], high[_ECE] = errors[0][1:]
    together = correlation(scaled[1:, 3], plain[1:, 3])
    low[_ECE_CHANGE], high[_ECE_CHANGE] = difference_of(errors[0], errors[1], together)
    converged = bool(0 < best[0] < len(TEMPERATURES) - 1)
    numbers = {"value": drawn[0], "low": low, "high": high, "drawn": drawn[1:]}
    return Scaling(n_fitted=n_fitted, n=n, converged=converged, **numbers)


def with_bits(words: Tensor, indices: Tensor) -> Tensor:
    """`words`, as long as needed, with the bits of the images at `indices` set; they must not be set already."""
    if not len(indices):
        return words
    longer = lengthened(words, int(indices.max()) // WORD + 1)
    return longer.index_add(0, indices // WORD, torch.ones_like(indices) << (indices % WORD))


def lengthened(rows: Tensor, length: int) -> Tensor:
    """`rows` with zeros after them, at least `length` in all."""
    missing = length - len(rows)
    return torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])]) if missing > 0 else rows
