"""Do the points of a map grow alike with depth, until they say the same everywhere (over-smoothing, rank collapse)?

For the map X of one image after a unit, with a row x_p for each of its P points (no class or register tokens) and C
channels, with singular values s,

    effective_rank = exp(- sum_k q_k log q_k),    q_k = s_k / sum_k s_k        from 1 to min(P, C)
    cosine         = mean over pairs of points p != r of  <x_p, x_r> / (||x_p|| ||x_r||)

(Roy and Vetterli's effective rank.) A point without a norm has a cosine of 0 with every other, and a map of zeros an
effective rank of 0. Values of a unit are means over images; so are the changes across it, after minus before, image by
image, and those of a kind of unit are means over its units. Intervals are over images.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.engine.exam import Subject
from vitscope.engine.moments import FeatureMoments
from vitscope.engine.single_exam import single_exam
from vitscope.findings.effective_rank import QUANTITIES, EffectiveRankResult
from vitscope.results import UnitRow


def rank_and_cosine(feature: Tensor) -> Tensor:
    """(N, 2): `effective_rank` and `cosine` of each image's map (N, C, H, W)."""
    rows = feature.flatten(2).mT.double()  # (N, points, C); roots of eigenvalues keep half of the digits
    return torch.stack([effective_rank_of(rows), mean_cosine(rows)], 1)


def effective_rank_of(rows: Tensor) -> Tensor:
    """(N,): of matrices (N, rows, columns); NaN where a number is not finite."""
    gram = rows @ rows.mT if rows.shape[1] <= rows.shape[2] else rows.mT @ rows
    finite = gram.isfinite().all(2).all(1)
    gram = torch.where(finite[:, None, None], gram, 0.0)
    values = torch.linalg.eigvalsh(gram).clamp_(min=0).sqrt_()
    total = values.sum(1, keepdim=True)
    shares = values / total.clamp(min=torch.finfo(values.dtype).tiny)
    rank = torch.where(total[:, 0] > 0, torch.special.entr(shares).sum(1).exp(), 0.0)
    return torch.where(finite, rank, torch.nan)


def mean_cosine(rows: Tensor) -> Tensor:
    """(N,): over pairs of different rows of (N, rows, columns); NaN for a single row."""
    norm = torch.linalg.vector_norm(rows, dim=2, keepdim=True)
    unit = rows / norm.clamp(min=torch.finfo(rows.dtype).tiny)
    pairs = rows.shape[1] * (rows.shape[1] - 1)
    own = unit.square().sum((1, 2))
    if not pairs:
        return torch.full_like(own, torch.nan)
    return ((unit.sum(1).square().sum(1) - own) / pairs).clamp(-1.0, 1.0)  # but for rounding


class EffectiveRankAccumulator(FeatureMoments):
    """Collects `rank_and_cosine` of every unit over images."""

    result = EffectiveRankResult
    by_default = False  # the eigenvalues of a matrix per unit and image
    measure = staticmethod(rank_and_cosine)

    def __init__(self, subject: Subject) -> None:
        numbers = len(QUANTITIES)
        super().__init__(subject, (numbers,) * len(subject.units), changing=numbers)

    def defined(self) -> np.ndarray:
        """A map of one point has no two that could be alike."""
        return np.array([points > 1 for points, _ in map(_size, self.subject.units)], dtype=bool)

    def comparable(self) -> np.ndarray:
        """Only where as many points and channels as before leave the bound where it was."""
        sizes = [_size(unit) for unit in self.subject.units]
        same = [before == size for before, size in zip([(0, 0), *sizes], sizes, strict=False)]
        return np.array(same, dtype=bool) & super().comparable()

    def compute(self) -> dict[str, Any]:
        """Means over images, and the change across each unit."""
        level = self.levels()
        rows = (len(self.subject.units), len(QUANTITIES))
        least, most = np.array([0.0, -1.0]), np.array([np.inf, 1.0])
        return {
            "n": int(self.n),
            **level.each(lambda numbers: numbers.reshape(rows)).bounded(least, most)._asdict(),
            "bound": np.array([float(min(_size(unit))) for unit in self.subject.units]),
            **self.change_fields(),
        }


def _size(unit: UnitRow) -> tuple[int, int]:
    """Points and channels of the map after a unit."""
    channels, height, width = unit.map_shape or (0, 1, 1)
    return height * width, channels


effective_rank = single_exam(
    EffectiveRankAccumulator, "how alike the points of `model`'s feature maps are on `data`"
)
