"""Variance of a feature map over its points: does a unit spread the points out or average them together?

For the map x of image i after a unit, with C channels and P = H W points,

    v_i = 1/C sum_c 1/(P - 1) sum_p (x_cp - mean_p x_cp)^2

The value of a unit is the mean of v_i over images, its interval is over images. The change across a unit is after
minus before, image by image; that of a kind of unit is the mean over its units. Attention averages points, so it
lowers the variance; convolutions and MLPs raise it.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.engine.exam import Subject
from vitscope.engine.moments import FeatureMoments, centred_points
from vitscope.engine.single_exam import single_exam
from vitscope.findings.variance import VarianceResult


def spatial_variance(feature: Tensor) -> Tensor:
    """(N, 1): per image of a map (N, C, H, W), the unbiased variance over points, averaged over channels."""
    channels, points = feature.shape[1], feature.shape[2] * feature.shape[3]
    centred, _, _ = centred_points(feature)
    squares = torch.linalg.vector_norm(centred, dim=2).square().sum(1, keepdim=True)
    return squares / (channels * (points - 1)) if points > 1 else torch.full_like(squares, torch.nan)


class VarianceAccumulator(FeatureMoments):
    """Collects `spatial_variance` of every unit over images."""

    result = VarianceResult
    measure = staticmethod(spatial_variance)

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject, (1,) * len(subject.units))

    def defined(self) -> np.ndarray:
        """A map of one point has no variance."""
        return np.array(
            [u.map_shape is None or u.map_shape[1] * u.map_shape[2] > 1 for u in self.subject.units]
        )

    def compute(self) -> dict[str, Any]:
        """Mean over images, and the change across each unit."""
        return {"n": int(self.n), **self.levels()._asdict(), **self.change_fields()}


variance = single_exam(VarianceAccumulator, "the variance of `model`'s feature maps on `data`")
