"""Can confidence be believed? Calibration errors and their intervals, from sums alone.

With confidence c_i and r_i = 1 if prediction i is right, the images are put into 15 groups g by confidence:

    error        = sum_g |sum_{i in g} (c_i - r_i)| / n
    signed error = sum_g sum_{i in g} (c_i - r_i) / n = mean confidence - accuracy

The groups of the usual error (ece) are confidences of equal width, those of the adaptive error hold equally many
images. To find equally many without keeping every confidence, confidences are counted in 512 cells of equal width in
log(c / (1 - c)) from -7 to 17, which are narrow where many confidences are: next to 1. A cell that a border falls into
is divided in proportion, as if its images (whose confidences differ by less than 0.012) came in random order.

Noise moves the gap of a group to either side, but its size only up: the error of few images is too high, and a
bootstrap's, which adds noise to noise, higher still. The interval is found by asking which true gaps would give an
error as high as the one seen. With gap m_g, its standard error s_g and noise e_g (of the bootstrap):

    low     the error sum_g max(|m_g| - k s_g, 0) of gaps that are smaller by k errors, k such that with noise
            sum_g |max(|m_g| - k s_g, 0) + e_g| reaches what was seen in 2.5 % of the replicates; 0 if gaps of 0 do
    high    97.5 % quantile of sum_g |m_g| + sign(m_g) e_g: where all gaps are real, noise raises nothing

A group whose images are all right (or all wrong) still has a standard error: at least the one it would have with two
right and two wrong answers more, shared out over all groups (as Agresti and Coull do for a share).
"""

import numpy as np
import torch
from torch import Tensor

from vitscope.core.statistics import NORMAL

GROUPS = 15
CELLS = 512
HALVINGS = 20  # to a millionth of what is searched
_LOWEST, _HIGHEST = -7.0, 17.0


def confidence_cells(confidence: Tensor) -> Tensor:
    """(N,) cell of each confidence; those beyond the ends are in the outermost cells."""
    odds = torch.logit(confidence.double())
    place = (odds - _LOWEST) * (CELLS / (_HIGHEST - _LOWEST))
    return place.clamp(0, CELLS - 1).long()


def adaptive_gaps(weight: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """(replicates, groups): summed gap of each of the groups of equal weight, over the weight of all.

    Args:
        weight: (cells, replicates), sum of the images' weights in each cell.
        gap: The same of weight times (confidence - right).
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

    Args:
        count: (..., groups) images, or points, in each.
        right: How many of them are right.
        n: Independent images, or blocks, in all.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (right / count + NORMAL**2 / (2 * n)) / (1 + NORMAL**2 / n)
        return np.nan_to_num(np.sqrt(count / count.sum(-1, keepdims=True) * share * (1 - share) / n))


def error_interval(gaps: np.ndarray, least: np.ndarray) -> tuple[float, float]:
    """95 % interval of a calibration error, or of its mean over conditions; it covers the error of the population.

    Args:
        gaps: (1 + replicates, conditions, groups), over the weight of all images; the first row is what was seen.
        least: (conditions, groups), see `least_error`.
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
