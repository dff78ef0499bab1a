"""Ways to predict the frames of a stream, each of which can be smoothed over time.

one pass      what the model says of a frame
mc dropout    the average over several random passes of the same frame
one draw      one random pass, of another network for every frame: smoothed over time it is VQ-BNN
"""

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from vitscope.engine.prediction.pass_sources import RandomPasses
from vitscope.surgery.temporal import TemporalSmoothing
from vitscope.surgery.tools.graft import grafts, ungraft
from vitscope.surgery.tools.predictions import log_probabilities

Fit = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Predictor:
    """One way to predict frames."""

    name: str
    spatial: bool  # with spatial smoothing
    # from (T, C, H, W) frames and the place of the first to logarithms of probabilities, (T, classes, ...)
    predict: Callable[[Tensor, int], Tensor]


def predictors(source: RandomPasses, passes: int, fit: Fit, shape: tuple[int, ...] | None) -> list[Predictor]:
    """The ways to predict frames that were asked for.

    Args:
        source: The model and its random passes.
        passes: Of MC dropout; 0: one deterministic pass is the only way.
        fit: Brings logits to the size of the masks.
        shape: Of the frames, to have every way with spatial smoothing as well; None: without.
    """
    sources = [(source, False)]
    smoothed = None if shape is None else source.smoothed(shape)
    if smoothed is not None:
        sources.append((smoothed, True))
    found = []
    for own, spatial in sources:
        found.append(Predictor("one pass", spatial, partial(_one_pass, own, fit)))
        if passes and own.most is None:
            found.append(Predictor("mc dropout", spatial, partial(_average, own, fit, passes)))
            found.append(Predictor("one draw", spatial, partial(_draws, own, fit)))
    return found


def log_mean(log_probability: Iterable[Tensor]) -> Tensor:
    """The logarithm of the mean of probabilities given by their logarithms, one at a time."""
    total, count = None, 0
    for log_p in log_probability:
        total = log_p if total is None else torch.logaddexp(total, log_p)
        count += 1
    assert total is not None
    return total - math.log(count)


def _one_pass(source: RandomPasses, fit: Fit, frames: Tensor, first: int) -> Tensor:
    return log_probabilities(fit(source.single(frames)))


def _average(source: RandomPasses, fit: Fit, passes: int, frames: Tensor, first: int) -> Tensor:
    return log_mean(log_probabilities(fit(logits)) for logits in source.passes(frames, first, passes))


def _draws(source: RandomPasses, fit: Fit, frames: Tensor, first: int) -> Tensor:
    drawn = [source.draw(frame[None], first + i) for i, frame in enumerate(frames)]
    return log_probabilities(fit(torch.cat(drawn)))


def without_memory(model: nn.Module) -> tuple[nn.Module, TemporalSmoothing | None]:
    """The model, or where it smooths over frames by itself a copy that does not, and how it does."""
    found = [(path, graft) for path, graft in grafts(model) if isinstance(graft, TemporalSmoothing)]
    if not found:
        return model, None
    copy = deepcopy(model)
    for path, _ in found:
        ungraft(copy, path)
    return copy, found[-1][1]


def smoothed_frames(smoothing: TemporalSmoothing, log_p: Tensor) -> Tensor:
    """What `vs.surgery.temporal` makes of consecutive frames (T, classes, ...), going on from those before."""
    return torch.cat([smoothing(lambda said: said, frame[None]) for frame in log_p])
