"""Uncertainty of features: how far apart are the points of one pass, and the passes of a random network?

For the map x of image i after a unit, with C channels, P = H W points, and T passes of a network with dropout on,

    data_i  = 1/C sum_c std_p(x_cp)               one pass, dropout off
    model_i = 1/(C P) sum_cp std_t(x_cp^t)        over the T passes
    share_i = model_i^2 / (model_i^2 + data_i^2)

The values of a unit are means over images, their intervals are over images. Both spreads have the scale of the
features; the share has none.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.anatomy import Anatomy, Tap, Unit, anatomy
from vitscope.anatomy.taps.capture import Stream
from vitscope.core.arguments import Count, Probability
from vitscope.core.arguments.vocabulary import Range
from vitscope.core.statistics import mean_interval
from vitscope.engine.exam import ProcedureSums, procedure
from vitscope.engine.moments import centred_points
from vitscope.engine.not_finite import look_inside, overflown
from vitscope.engine.own_passes import own_passes
from vitscope.engine.random_passes import random_network
from vitscope.engine.takes_interface import Asked
from vitscope.findings.uncertainty import QUANTITIES, UncertaintyResult
from vitscope.results import UnitRow

Passes = Annotated[int, Range(2, 1_000_000_000)]  # one has no spread
FEW = 4  # noise images on which a model shows whether its passes differ
MOST_NUMBERS = 1 << 25  # of all maps of the images that are looked at together


def spread_over_points(feature: Tensor) -> Tensor:
    """(N,): per image of a map (N, C, H, W), the standard deviation over points, averaged over channels."""
    points = feature.shape[2] * feature.shape[3]
    if points < 2:
        return torch.full(feature.shape[:1], torch.nan, device=feature.device)
    centred, _, channels_last = centred_points(feature)
    norms = torch.linalg.vector_norm(centred, dim=1 if channels_last else 2)
    return norms.mean(1) / (points - 1) ** 0.5


class SpreadOverPasses:
    """The standard deviation of every number of a map over passes, from sums of what differs from a first pass."""

    def __init__(self, plain: Tensor) -> None:
        self._plain = plain.float().clone()
        self._total, self._squares = torch.zeros_like(self._plain), torch.zeros_like(self._plain)
        self._passes = 0

    def add(self, feature: Tensor) -> None:
        """Take in one pass."""
        difference = feature.float() - self._plain
        self._total += difference
        self._squares.addcmul_(difference, difference)
        self._passes += 1

    def mean(self) -> Tensor:
        """(N,): per image, the average over all numbers of its map."""
        variance = (self._squares - self._total.square() / self._passes) / (self._passes - 1)
        return variance.clamp_min_(0.0).sqrt_().flatten(1).mean(1)


class UncertaintySums(ProcedureSums):
    """Sums over images of the spreads of every unit."""

    n: Tensor
    total: Tensor
    squares: Tensor

    def __init__(self, units: Sequence[UnitRow]) -> None:
        super().__init__()
        self._units = units
        shapes = [unit.map_shape or (0, 0, 0) for unit in units]
        self._several_points = torch.tensor([h * w > 1 for _, h, w in shapes], dtype=torch.bool)
        rows = (len(units), len(QUANTITIES))
        self.add_sums(total=rows, squares=rows)
        self.add_counts("n")

    def update(self, spreads: Tensor) -> None:
        """Take in the spreads of some images: (units, N, quantities)."""
        spreads = spreads.double().cpu()
        bad = spreads.isinf().flatten(1).any(1) | (spreads[..., 0].isnan().any(1) & self._several_points)
        if bad.any():
            raise overflown(f"the features after '{self._units[int(bad.nonzero()[0])].name}' are not finite")
        self.n += spreads.shape[1]
        self.total += spreads.sum(1)
        self.squares += spreads.square().sum(1)

    def compute(self) -> dict[str, Any]:
        """Means over the images of all processes, and their intervals."""
        found = mean_interval(self.total.numpy().copy(), self.squares.numpy().copy(), int(self.n))
        most = np.array([1.0 if quantity == "model_share" else np.inf for quantity in QUANTITIES])
        return {"n": int(self.n), **found.bounded(most=most)._asdict()}


@torch.inference_mode()
def _spreads(
    model: nn.Module,
    parts: Anatomy,
    images: Tensor,
    passes: int,
    sampled: AbstractContextManager[None] | None,
    stream: Stream,
) -> Tensor:
    """(units, N, quantities): of one plain pass, and of passes inside `sampled`; NaN for these if it is None."""
    points: dict[str, Tensor] = {}
    over_passes: dict[str, SpreadOverPasses] = {}

    def plain(unit: Unit, feature: Tensor) -> None:
        points[unit.name] = spread_over_points(feature)
        if sampled is not None:
            over_passes[unit.name] = SpreadOverPasses(feature)

    def random(unit: Unit, feature: Tensor) -> None:
        over_passes[unit.name].add(feature)

    look_inside(model, parts, images, plain, stream)
    data = torch.stack([points[unit.name] for unit in parts.mapped])
    if sampled is None:
        return torch.stack([data, *[torch.full_like(data, torch.nan)] * 2], 2)
    with sampled, Tap(model, parts, parts.mapped, on_feature=random, stream=stream):
        for _ in range(passes):
            model(images)
    by_pass = torch.stack([over_passes[unit.name].mean() for unit in parts.mapped])
    total = data.square() + by_pass.square()
    share = torch.where(total == 0, total, by_pass.square() / total)  # a constant map has neither spread
    return torch.stack([data, by_pass, share], 2)


@procedure(UncertaintyResult, needs_maps=True)
def uncertainty(
    model: nn.Module,
    data: Any,
    request: Asked,
    passes: Passes = 8,
    p: Probability = 0.3,
    most: Count = 512,
    stream: Stream = "read",
) -> UncertaintyResult:
    """Measure how far `model`'s features spread over points and over random passes.

    `examine` documents the arguments before `passes`, and `stream`.

    Args:
        passes: Of the random network.
        p: Of the MC dropout that is put into a copy of a model without any dropout of its own.
        most: Use at most this many images; they are enough for narrow intervals.
    """
    request = replace(request, limit=min(request.limit or most, most))
    with own_passes(model, data, request) as own:
        units = own.mapped_anatomy.mapped
        rows = tuple(UnitRow.of(unit, stream) for unit in units)
        sums = UncertaintySums(rows)
        network = random_network(model, own.anatomy, own.noise(FEW), p, request.seed)
        subject = model if network is None else network.model
        parts = own.anatomy if subject is model else anatomy(subject, own.anatomy.input_shape)
        at_once = max(1, MOST_NUMBERS // sum(math.prod(unit.map_shape or ()) for unit in units))
        with own.progress("uncertainty") as advance:
            for images, _, indices in own.stream:
                for some, places in zip(images.split(at_once), indices.split(at_once), strict=True):
                    sampled = None if network is None else network.passes(request.seed, int(places[0]))
                    sums.update(_spreads(subject, parts, some.to(own.dtype), passes, sampled, stream))
                    advance(len(some))
        return UncertaintyResult(
            **own.common,
            **sums.finish(),
            units=rows,
            passes=0 if network is None else passes,
            source="" if network is None else network.source,
        )
