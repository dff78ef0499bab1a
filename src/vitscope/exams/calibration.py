"""Can confidence be believed? Calibration errors, and intervals of shares, from sums alone.

With confidence c_i and r_i = 1 if prediction i is right, the images are put into 15 groups g by confidence:

    error        = sum_g |sum_{i in g} (c_i - r_i)| / n
    signed error = sum_g sum_{i in g} (c_i - r_i) / n = mean confidence - accuracy

The groups of the usual error (ece) are confidences of equal width, those of the adaptive error hold equally many
images. To find equally many without keeping every confidence, confidences are counted in 512 cells of equal width in
log(c / (1 - c)) from -7 to 17, which are narrow where many confidences are: next to 1. A cell that a border falls into
is divided in proportion, as if its images (whose confidences differ by less than 0.012) came in random order.
"""

import numpy as np
import torch
from torch import Tensor

from vitscope.exams.interval import NORMAL

GROUPS = 15
CELLS = 512
_LOWEST, _HIGHEST = -7.0, 17.0


def confidence_cells(confidence: Tensor) -> Tensor:
    """(N,) cell of each confidence; those beyond the ends are in the outermost cells."""
    odds = torch.logit(confidence.double())
    place = (odds - _LOWEST) * (CELLS / (_HIGHEST - _LOWEST))
    return place.clamp(0, CELLS - 1).long()


def adaptive_error(weight: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Calibration error over groups of equal weight, per replicate.

    Args:
        weight: (cells, replicates), sum of the images' weights in each cell.
        gap: The same of weight times (confidence - right).
    """
    replicates = weight.shape[1]
    error = np.full(replicates, np.nan)
    summed = np.zeros((2, len(weight) + 1, replicates))
    np.cumsum(weight, axis=0, out=summed[0, 1:])
    np.cumsum(gap, axis=0, out=summed[1, 1:])
    shares = np.arange(GROUPS + 1) / GROUPS
    for r in range(replicates):
        total = summed[0, -1, r]
        if total > 0:
            at_borders = np.interp(shares * total, summed[0, :, r], summed[1, :, r])
            error[r] = np.abs(np.diff(at_borders)).sum() / total
    return error


def share_interval(count: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's 95 % interval of shares count / n; NaN where n is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share, z2 = count / n, NORMAL**2 / n
        centre = (share + z2 / 2) / (1 + z2)
        half = np.sqrt(z2 * (share * (1 - share) + z2 / 4)) / (1 + z2)
        return np.clip(np.minimum(centre - half, share), 0, 1), np.clip(
            np.maximum(centre + half, share), 0, 1
        )
