"""Fourier amplitude of feature maps: does a unit pass high frequencies on or smooth them away?

For the map x of image i after a unit, with the amplitude A_ic(f) of channel c at frequency f (see `dft.py`),

    d_i(f)    = mean_c log A_ic(f) - mean_c log A_ic(0),    log A short for 1/2 log(A^2 + 1e-12)
    diagonal: d_i at fy = fx = f,    f = 2 pi k / h,  h = min(H, W)
    radial:   mean of d_i over a ring of frequencies with about the same |f| = sqrt(fy^2 + fx^2)

The value of a unit is the mean over images (a mean of logs, not a log of means), its interval is over images. The
diagonal runs from 0 to the last frequency below pi: pi (1 - 2/h) for even h, pi (1 - 1/h) for odd h; its last
value is the one that the change across a unit is about. On a square map it is part of the FFT; on other maps the
same sum is taken at the frequencies of the shorter side, so that both directions have the same frequency. Ring r
holds what is nearest to |f| = 2 pi r / h, and is labelled with the mean |f| of what it holds; rings reach into the
corners, beyond pi. Attention lowers the high frequencies, convolutions and MLPs raise them.
"""

import math
from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.anatomy.taps.capture import Stream
from vitscope.engine.exam import Subject
from vitscope.engine.features.dft import half_diagonal, half_plane, log_amplitudes, on_diagonal
from vitscope.engine.features.moments import FeatureMoments
from vitscope.engine.one_pass import examine
from vitscope.engine.takes_interface import takes_interface
from vitscope.findings.fourier import FourierResult
from vitscope.results import UnitRow


@lru_cache(maxsize=64)
def rings(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The rings of a map's half plane: their frequencies |f| (R,), and which share of each (F, R) a frequency is."""
    radius = np.linalg.norm(half_plane(height, width), axis=1)
    nearest = np.maximum(np.rint(radius * min(height, width) / (2 * math.pi)), 1)
    member = (nearest[:, None] == np.unique(nearest)).astype(np.float64)
    share = member / member.sum(0, keepdims=True)
    return radius @ share, share


def spectrum(feature: Tensor) -> Tensor:
    """(N, 1 + R + K): per image of a map (N, C, H, W), log amplitudes relative to frequency 0.

    First frequency 0 and the rings, then the half diagonal, which begins at frequency 0, too.
    """
    height, width = feature.shape[2:]
    zero, plane, diagonal = log_amplitudes(feature)
    columns = (plane - zero) @ _columns(height, width, feature.device)
    return columns if diagonal is None else torch.cat([columns, diagonal - zero], 1)


@lru_cache(maxsize=64)
@torch.inference_mode(False)
def _columns(height: int, width: int, device: torch.device) -> Tensor:
    """What to multiply the half plane with: frequency 0, rings, 0 and, where it is part of it, the diagonal."""
    share = rings(height, width)[1]
    nothing = np.zeros((len(share), 1))
    diagonal = np.eye(len(share))[:, on_diagonal(height)] if height == width else nothing[:, :0]
    return torch.from_numpy(np.hstack([nothing, share, nothing, diagonal])).float().to(device)


class FourierAccumulator(FeatureMoments):
    """Collects `spectrum` of every unit over images."""

    result = FourierResult
    measure = staticmethod(spectrum)

    def __init__(self, subject: Subject) -> None:
        grids = [_grid(unit) for unit in subject.units]
        # The frequencies of each unit's columns: rings, then the diagonal, whose end comes last.
        columns = [(np.append(0.0, rings(*grid)[0]), half_diagonal(*grid)) for grid in grids]
        super().__init__(subject, tuple(len(radial) + len(diagonal) for radial, diagonal in columns))
        self.columns = columns

    def comparable(self) -> np.ndarray:
        """Only on the same grid are there the same frequencies; one of them has to be above 0."""
        grids = [_grid(unit) for unit in self.subject.units]
        pairs = zip([(0, 0), *grids], grids, strict=False)
        return np.array([before == grid and min(grid) > 2 for before, grid in pairs], dtype=bool)

    def compute(self) -> dict[str, Any]:
        """Mean spectra over images, and the change across each unit that keeps the grid."""
        level = self.levels()
        on_diagonal = np.concatenate([[False] * len(a) + [True] * len(b) for a, b in self.columns])
        rings_of = ~on_diagonal
        return {
            "n": int(self.n),
            "row_unit": self.owner[on_diagonal].astype(np.int64),
            "frequency": np.concatenate([diagonal for _, diagonal in self.columns]),
            "value": level.value[on_diagonal],
            "low": level.low[on_diagonal],
            "high": level.high[on_diagonal],
            "ring_unit": self.owner[rings_of].astype(np.int64),
            "ring_frequency": np.concatenate([radial for radial, _ in self.columns]),
            "ring_value": level.value[rings_of],
            "ring_low": level.low[rings_of],
            "ring_high": level.high[rings_of],
            **self.change_fields(),
        }


def _grid(unit: UnitRow) -> tuple[int, int]:
    _, height, width = unit.map_shape or (0, 1, 1)
    return height, width


@takes_interface
def fourier(
    model: nn.Module,
    data: Any,
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    stream: Stream = "read",
) -> FourierResult:
    """Examine the frequencies in `model`'s feature maps on `data`; `examine` documents the arguments."""
    results = examine(model, data, [FourierAccumulator], limit, batch_size, seed, device, stream=stream)
    return cast(FourierResult, results["fourier"])
