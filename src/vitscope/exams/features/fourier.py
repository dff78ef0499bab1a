"""Fourier amplitude of feature maps: does a unit pass high frequencies on or smooth them away?

For the map x of image i after a unit, with H by W points, at the frequency f = 2 pi (ky / H, kx / W) of channel c,

    A_ic(f)   = | sum_yx x(y, x) exp(-j (fy y + fx x)) |
    d_i(f)    = mean_c log A_ic(f) - mean_c log A_ic(0),    log A short for 1/2 log(A^2 + 1e-12)
    diagonal: d_i at fy = fx = f,    f = 2 pi k / h,  h = min(H, W)
    radial:   mean of d_i over a ring of frequencies with about the same |f| = sqrt(fy^2 + fx^2)

The value of a unit is the mean over images (a mean of logs, not a log of means), its interval is over images. The
diagonal runs from 0 to the last frequency below pi: pi (1 - 2/h) for even h, pi (1 - 1/h) for odd h; its last
value is the one that the change across a unit is about. On a square map it is part of the FFT; on other maps the
same sum is taken at the frequencies of the shorter side, so that both directions have the same frequency. Ring r
holds what is nearest to |f| = 2 pi r / h, and is labelled with the mean |f| of what it holds; rings reach into the
corners, beyond pi. Attention lowers the high frequencies, convolutions and MLPs raise them.

A real map has A(f) = A(-f), so one of each such pair is enough: the half plane. Frequencies that are their own
negative (0, and pi in one or both directions of even maps) have a real coefficient, not a complex one, which alone
lowers the mean log amplitude of noise by 0.35; all but 0 are left out. Maps are small and many: for them a product
with a matrix of cosines and sines, in the layout that memory has, is several times faster than an FFT. Up to
DENSE points one matrix does both directions, above it they follow each other.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.engine.exam import Subject
from vitscope.engine.moments import FeatureMoments, centred_points
from vitscope.engine.single_exam import single_exam
from vitscope.findings.fourier import FourierResult
from vitscope.results import UnitRow

FLOOR = 1e-6  # under an amplitude, so that dead channels have a logarithm
DENSE = 64  # points of a map


@lru_cache(maxsize=64)
def half_plane(height: int, width: int) -> np.ndarray:
    """(F, 2): the frequencies (fy, fx) of the half plane, in radians per point, above -pi and up to pi."""
    inner = [(ky, kx) for ky in range(1, (height + 1) // 2) for kx in range(width)]
    edges = [(ky, kx) for ky in _own_negatives(height) for kx in range(1, (width + 1) // 2)]
    turns = np.array(inner + edges, dtype=np.float64).reshape(-1, 2) / (height, width)
    return 2 * math.pi * np.where(turns > 0.5, turns - 1.0, turns)


@lru_cache(maxsize=64)
def half_diagonal(height: int, width: int) -> np.ndarray:
    """(K,): the frequencies f = fy = fx of the shorter side, from 0 to the last one below pi."""
    side = min(height, width)
    return 2 * math.pi * np.arange((side + 1) // 2) / side


def log_amplitudes(feature: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Log amplitudes of a map (N, C, H, W), averaged over channels: 1/2 log(A^2 + FLOOR^2).

    Returns:
        (N, 1) at frequency 0, (N, F) on the half plane, and (N, K - 1) on the half diagonal above 0, or None for
        square maps, where `on_diagonal` says where it lies in the half plane.
    """
    height, width = feature.shape[2:]
    # The mean has no part in f > 0; without it rounding does not drown small amplitudes.
    centred, mean, channels_last = centred_points(feature)
    points = centred if channels_last else centred.mT  # (N, points, C)
    zero = _mean_log((mean * (height * width)).square_().add_(FLOOR**2).flatten(1), 1)[:, None]
    if height * width <= DENSE:
        plane = _at_once(points, _waves(height, width, False, feature.device))
    else:
        plane = _one_by_one(points.contiguous(), height, width)
    if height == width:
        return zero, plane, None
    return zero, plane, _at_once(points, _waves(height, width, True, feature.device))


def on_diagonal(side: int) -> list[int]:
    """Where the half diagonal above 0 of a square map lies in its half plane."""
    return [(k - 1) * side + k for k in range(1, (side + 1) // 2)]


def _at_once(points: Tensor, waves: Tensor) -> Tensor:
    """(N, F): both directions by one product."""
    cosine, sine = (waves @ points).chunk(2, 1)
    return _mean_log(_power(cosine, sine), 2)


def _one_by_one(points: Tensor, height: int, width: int) -> Tensor:
    """(N, F): along y, then along x."""
    images, _, channels = points.shape
    along_y, along_x, kept = _steps(height, width, points.device)
    rows = torch.matmul(along_y, points.view(images, height, -1)).view(-1, 2 * width, channels)
    cosine, sine = torch.matmul(along_x, rows).chunk(2, 1)
    return _mean_log(_power(cosine, sine), 2).view(images, -1)[:, kept]


def _power(cosine: Tensor, sine: Tensor) -> Tensor:
    """Squared amplitudes, and the floor under them."""
    floor = torch.tensor(FLOOR**2, dtype=cosine.dtype, device=cosine.device)
    return torch.addcmul(floor, cosine, cosine).addcmul_(sine, sine)


def _mean_log(power: Tensor, channels: int) -> Tensor:
    """Half the mean over channels of the log of squared amplitudes, in their place."""
    return power.log_().mean(channels).mul_(0.5)


@lru_cache(maxsize=16)
@torch.inference_mode(False)
def _waves(height: int, width: int, diagonal: bool, device: torch.device) -> Tensor:
    """(2 F, H W): cosines, then sines, of the half plane, or of the half diagonal above 0."""
    y, x = np.indices((height, width)).reshape(2, 1, -1)
    both = half_diagonal(height, width)[1:, None].repeat(2, axis=1) if diagonal else half_plane(height, width)
    angle = both[:, :1] * y + both[:, 1:] * x
    return torch.from_numpy(np.vstack([np.cos(angle), np.sin(angle)])).float().to(device)


@lru_cache(maxsize=16)
@torch.inference_mode(False)
def _steps(height: int, width: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The matrices of the two directions, and which of their frequencies are the half plane, in its order.

    Every frequency along y has a row of cosines and one of sines. Along x both go into (2 W, 2 W), all cosine parts
    first. Frequencies along y that are their own negatives give the negative ones along x, too, which are left out.
    """
    turns = [*range(1, (height + 1) // 2), *_own_negatives(height)]
    y = 2 * math.pi / height * np.arange(height)
    along_y = np.array([wave(k * y) for k in turns for wave in (np.cos, np.sin)]).reshape(-1, height)
    angle = 2 * math.pi / width * np.outer(np.arange(width), np.arange(width))
    cosine, sine = np.cos(angle), np.sin(angle)
    kept = np.ones((len(turns), width), dtype=bool)
    kept[(height + 1) // 2 - 1 :] = (np.arange(width) > 0) & (np.arange(width) < (width + 1) // 2)
    along_x = np.block([[cosine, -sine], [sine, cosine]])
    waves = [torch.from_numpy(matrix).float().to(device) for matrix in (along_y, along_x)]
    return waves[0], waves[1], torch.from_numpy(np.flatnonzero(kept)).to(device)


def _own_negatives(side: int) -> list[int]:
    return [0] if side % 2 else [0, side // 2]


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
            **level.at(on_diagonal)._asdict(),
            "ring_unit": self.owner[rings_of].astype(np.int64),
            "ring_frequency": np.concatenate([radial for radial, _ in self.columns]),
            "ring": level.at(rings_of),
            **self.change_fields(),
        }


def _grid(unit: UnitRow) -> tuple[int, int]:
    _, height, width = unit.map_shape or (0, 1, 1)
    return height, width


fourier = single_exam(FourierAccumulator, "the frequencies in `model`'s feature maps on `data`")
