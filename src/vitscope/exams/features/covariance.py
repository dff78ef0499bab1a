"""Covariance of features under noise: how far does the architecture tie neighbouring points together?

The model is shown images of independent Gaussian noise, so that points are alike only as far as the units mix them.
For the map y of a unit, with C channels and centre point o,

    cov(p)  = 1/C sum_c Cov(y_cp, y_co)                             over noise images
    corr(p) = cov(p) / sqrt(cov_pp cov_oo)                          cov_pp = 1/C sum_c Var(y_cp)
    corr(r) = mean of corr(p) over the points p at distance r       the larger of the distances in rows and columns

Of one convolution with a kernel k the covariance is the kernel's autocorrelation: a 3x3 kernel reaches two points
far, and what is three points away is independent. Noise images are taken in groups of 8; a group gives an unbiased
estimate, and intervals come from the jackknife over groups.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.anatomy import Unit
from vitscope.anatomy.taps.capture import Stream
from vitscope.core import distributed
from vitscope.core.arguments.vocabulary import Range
from vitscope.core.statistics import Estimate, student
from vitscope.engine.exam import Rows, procedure
from vitscope.engine.not_finite import look_inside
from vitscope.engine.own_passes import own_passes
from vitscope.engine.takes_interface import Asked
from vitscope.findings.covariance import CovarianceResult
from vitscope.results import UnitRow

GROUP = 8  # noise images that give one estimate
Draws = Annotated[int, Range(2 * GROUP, 1_000_000_000)]  # an interval needs two estimates


def centre_covariance(feature: Tensor, group: int = GROUP) -> Tensor:
    """(N / group, 2, points): of each group of maps (N, C, H, W), the covariance of every point with the centre
    point, and its variance, averaged over channels."""
    _, channels, height, width = feature.shape
    points = feature.flatten(2).float().unflatten(0, (-1, group))  # (groups, group, C, points)
    points = points - points.mean(1, keepdim=True)
    centre = (height // 2) * width + width // 2
    covariance = torch.einsum("gncp,gnc->gp", points, points[..., centre])
    variance = points.square().sum((1, 2))
    return torch.stack([covariance, variance], 1).double() / (channels * (group - 1))


def distances(height: int, width: int) -> np.ndarray:
    """(points,): how far each point is from the centre point, in rows or columns, whichever is more."""
    rows, columns = np.abs(np.arange(height) - height // 2), np.abs(np.arange(width) - width // 2)
    return np.maximum(rows[:, None], columns[None, :]).ravel()


def _correlation(groups: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """(points,) from the mean over groups (2, points); `centre` says where each point's centre point stands."""
    covariance, variance = groups
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(covariance / np.sqrt(variance * variance[centre]), -1.0, 1.0)


def _jackknife(
    statistic: Callable[[np.ndarray], np.ndarray], groups: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A statistic of the mean over groups, and half of its 95 % interval."""
    total, n = groups.sum(0), len(groups)
    value = statistic(total / n)
    others = np.stack([statistic((total - group) / (n - 1)) for group in groups])
    error = np.sqrt((n - 1) / n * ((others - others.mean(0)) ** 2).sum(0))
    return value, student(n - 1) * error


@procedure(CovarianceResult, needs_maps=True)
def covariance(
    model: nn.Module,
    data: Any,
    request: Asked,
    draws: Draws = 512,
    stream: Stream = "read",
) -> CovarianceResult:
    """Measure how `model`'s feature maps correlate with their centre point when it is shown noise.

    `examine` documents the other arguments; of the data only the size of its images matters.

    Args:
        draws: Noise images, in groups of 8; a smaller `limit` makes them fewer.
    """
    groups = max(2, min(draws, request.limit or draws) // GROUP)
    with own_passes(model, data, request) as own:
        parts = own.mapped_anatomy
        units = tuple(UnitRow.of(unit, stream) for unit in parts.mapped)
        grids = [unit.map_shape[1:] for unit in units if unit.map_shape is not None]
        stride = np.array([own.input_shape[1] / height for height, _ in grids])
        numbers = Rows(groups=(groups, 2, sum(height * width for height, width in grids)))
        found: dict[str, Tensor] = {}

        def measure(unit: Unit, feature: Tensor) -> None:
            found[unit.name] = centre_covariance(feature).cpu()

        at_once = max(1, request.batch_size // GROUP)
        mine = distributed.shard(-(-groups // at_once))
        with own.progress("covariance", at_once * GROUP * len(mine)) as advance:
            for first in (at_once * position for position in mine):
                some = range(first, min(first + at_once, groups))
                noise = torch.cat([own.noise(GROUP, (request.seed << 20) + group) for group in some])
                look_inside(model, parts, noise, measure, stream)
                numbers.fill(slice(first, some.stop), groups=torch.cat([found[u.name] for u in units], 2))
                advance(len(some) * GROUP)
        measured = numbers.finish()["groups"]
        return CovarianceResult(
            **own.common, n=groups * GROUP, units=units, stride=stride, **_summary(grids, measured)
        )


def _summary(grids: Sequence[tuple[int, int]], groups: np.ndarray) -> dict[str, Any]:
    """The result's own fields from what the groups gave (groups, 2, points)."""
    sizes = [height * width for height, width in grids]
    starts = np.cumsum([0, *sizes])[:-1]
    owner = np.repeat(np.arange(len(grids)), sizes)
    centres = [start + (h // 2) * w + w // 2 for start, (h, w) in zip(starts, grids, strict=True)]
    centre = np.array(centres, dtype=np.int64)[owner]
    distance = np.concatenate([distances(*grid) for grid in grids])
    rings = sorted(set(zip(owner.tolist(), distance.tolist(), strict=True)))
    ring_of = {ring: position for position, ring in enumerate(rings)}
    ring = np.array([ring_of[pair] for pair in zip(owner.tolist(), distance.tolist(), strict=True)], np.int64)

    def profile(mean: np.ndarray) -> np.ndarray:
        return np.bincount(ring, _correlation(mean, centre)) / np.bincount(ring)

    value, half = _jackknife(profile, groups)
    mean = groups.mean(0)
    return {
        "point_unit": owner,
        "covariance": mean[0],
        "correlation": _correlation(mean, centre),
        "row_unit": np.array([unit for unit, _ in rings], dtype=np.int64),
        "radius": np.array([radius for _, radius in rings], dtype=np.int64),
        **Estimate(value, value - half, value + half).bounded(-1.0, 1.0)._asdict(),
    }
