"""Fourier amplitude of feature maps: does a unit pass high frequencies on or smooth them away?

For the map x of image i after a unit, the amplitude of channel c on the diagonal of the frequency plane is

    A_ic(f) = | sum_yx x_c(y, x) exp(-j f (y + x)) |,    f_k = pi k / (h / 2),  h = min(H, W)
    d_i(f)  = mean_c log(A_ic(f) + 1e-6) - mean_c log(A_ic(0) + 1e-6)

The value of a unit is the mean of d_i(f) over images (a mean of logs, not a log of means), its interval is
over images. k runs over the whole half diagonal, from 0 to the last frequency below pi: pi (1 - 2/h) for
even h, pi (1 - 1/h) for odd h. pi itself, which only even maps have, is left out as in the paper: its
coefficient is real, not complex, which alone lowers the mean log amplitude of noise by 0.35. On a square map
these are the diagonal entries of the two-dimensional FFT; on other maps the same sum is taken at the
frequencies of the shorter side, so that both directions have the same frequency. Attention lowers the high
frequencies, convolutions and MLPs raise them.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from vitscope.exams.base import Subject
from vitscope.exams.moments import FeatureMoments
from vitscope.exams.one_pass import examine
from vitscope.exams.points import centred_points
from vitscope.results import About, Result, UnitRow, tidy

FLOOR = 1e-6  # added to the amplitude, so that dead channels have a logarithm


def frequencies(height: int, width: int) -> np.ndarray:
    """The frequencies of a map's half diagonal in radians per point, from 0 to the last one below pi."""
    side = min(height, width)
    return 2 * math.pi * np.arange((side + 1) // 2) / side


def half_diagonal(feature: Tensor) -> Tensor:
    """(N, frequencies): per image of a map (N, C, H, W), the log amplitude relative to frequency 0."""
    height, width = feature.shape[2:]
    waves = _waves(height, width, feature.device)
    # The mean has no part in f > 0; without it rounding does not drown small amplitudes.
    centred, mean, channels_last = centred_points(feature)
    axis, channels = (1, 2) if channels_last else (2, 1)
    cosine, sine = (waves.T @ centred if channels_last else centred @ waves).chunk(2, dim=axis)
    amplitude = torch.cat([mean.abs() * (height * width), torch.hypot(cosine, sine)], axis)
    log = amplitude.add_(FLOOR).log_().mean(channels)
    return log - log[:, :1]


@lru_cache(maxsize=16)
@torch.inference_mode(False)
def _waves(height: int, width: int, device: torch.device) -> Tensor:
    """(H W, 2 K): the transform at the frequencies above 0 as one real matrix: cosines, then sines."""
    diagonal = np.add.outer(np.arange(height), np.arange(width)).reshape(-1, 1)
    angle = diagonal * frequencies(height, width)[1:]
    return torch.from_numpy(np.hstack([np.cos(angle), np.sin(angle)])).float().to(device)


@dataclass(frozen=True, eq=False, kw_only=True)
class FourierResult(Result, exam="fourier"):
    """Log amplitude relative to frequency 0, a row per unit and frequency; `change` has one per unit."""

    about = About(
        title="Fourier analysis",
        shows="Log amplitude of the feature map after each unit at its highest frequency, relative to "
        "frequency 0, averaged over channels and images. A unit across which the line falls is a "
        "low-pass filter; one across which it rises is a high-pass filter.",
        papers="In the paper, attention (grey) lowers the high frequencies, except in the first layers, "
        "while convolutions and MLPs (white) raise them.",
        misleads="Maps of different size end at different frequencies, and a change of scale or offset "
        "moves the whole curve: compare the change across a unit on one grid, not levels of "
        "different depths or models.",
    )

    units: tuple[UnitRow, ...]
    row_unit: np.ndarray  # index of the unit of each row
    frequency: np.ndarray  # radians per point
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    change: np.ndarray  # at the highest frequency, across the unit; NaN where the grid changes
    change_low: np.ndarray
    change_high: np.ndarray

    @property
    def highest(self) -> np.ndarray:
        """Row of each unit's highest frequency."""
        return np.flatnonzero(np.diff(self.row_unit, append=len(self.units)))

    def table(self) -> pd.DataFrame:
        """Quantities `delta_log_amplitude` (per frequency) and `change` (at the highest, paired by image)."""
        units = [self.units[i] for i in self.row_unit]
        level = tidy(
            "delta_log_amplitude", self.value, self.low, self.high, self.n, units, frequency=self.frequency
        )
        end = self.frequency[self.highest]
        change = tidy(
            "change", self.change, self.change_low, self.change_high, self.n, self.units, frequency=end
        )
        return pd.concat([level, change], ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """Each unit at its highest frequency; units whose map has no frequency but 0 are left out."""
        table = self.table()
        top = table.groupby("unit")["frequency"].transform("max")
        return table[(table["frequency"] == top) & (top > 0)].reset_index(drop=True)


class FourierAccumulator(FeatureMoments):
    """Collects `half_diagonal` of every unit over images."""

    result = FourierResult
    measure = staticmethod(half_diagonal)

    def __init__(self, subject: Subject) -> None:
        grids = [(u.map_shape or (0, 1, 1))[1:] for u in subject.units]
        super().__init__(subject, tuple(len(frequencies(*grid)) for grid in grids))
        self.grids = grids
        self.frequencies = [frequencies(*grid) for grid in grids]

    def compute(self) -> dict[str, Any]:
        """Mean over images, and the change across each unit that keeps the grid."""
        level, change = self.levels(), self.changes()
        same = [i > 0 and self.grids[i] == self.grids[i - 1] for i in range(len(self.grids))]
        kept = np.array(same) & np.array([len(f) > 1 for f in self.frequencies])
        return {
            "n": int(self.n),
            "row_unit": self.owner.astype(np.int64),
            "frequency": np.concatenate(self.frequencies),
            "value": level.value,
            "low": level.low,
            "high": level.high,
            "change": np.where(kept, change.value, np.nan),
            "change_low": np.where(kept, change.low, np.nan),
            "change_high": np.where(kept, change.high, np.nan),
        }


def fourier(
    model: nn.Module,
    data: Any,
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> FourierResult:
    """Examine the frequencies in `model`'s feature maps on `data`; `examine` documents the arguments."""
    return cast(
        FourierResult, examine(model, data, [FourierAccumulator], limit, batch_size, seed, device)["fourier"]
    )
