"""One sequence of frames after the other, predicted in every way, as it is and smoothed over time.

one pass      what the model says of a frame
mc dropout    the average over several random passes of the same frame
one draw      one random pass, of another network for every frame: smoothed over time it is VQ-BNN
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from vitscope.data.frames import UNLABELLED
from vitscope.engine.frame_scores import FrameScores, frame_columns, true_probability, unchanged
from vitscope.engine.pass_scores import Stopwatch
from vitscope.engine.random_passes import RandomPasses
from vitscope.surgery.temporal import TemporalSmoothing
from vitscope.surgery.tools.predictions import log_probabilities

# from (T, C, H, W) frames and the place of the first to logarithms of probabilities, (T, classes, ...)
Predict = Callable[[Tensor, int], Tensor]
Fit = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Predictor:
    """One way to predict frames."""

    name: str
    spatial: bool  # with spatial smoothing
    predict: Predict


class SequenceScorer:
    """Puts frames into `scores`; condition 2 i is way i as it is, 2 i + 1 the same smoothed over time."""

    def __init__(self, ways: Sequence[Predictor], rate: float, previous: int, scores: FrameScores) -> None:
        self._ways, self._scores = ways, scores
        self._new = lambda: TemporalSmoothing(rate, previous).eval()
        self.begin(False)

    def begin(self, traced: bool) -> None:
        """The next frames begin a sequence, of which the first ones are traced or not; the last one is forgotten."""
        self._smoothings = [self._new() for _ in self._ways]
        self._before: list[Tensor | None] = [None] * (1 + 2 * len(self._ways))  # classes; the labels' last
        self._seen = 0
        self._traced = traced

    def take(self, frames: Tensor, labels: Tensor, first: int, blocks: np.ndarray) -> None:
        """Take in the next frames (T, C, H, W) of the sequence, of which the first stands at a place in the data, and
        the blocks (T,) of the bootstrap that they are in."""
        columns: list[Tensor] = []
        for way, smoothing in zip(self._ways, self._smoothings, strict=True):
            said = way.predict(frames, first)
            for log_p in (said, smoothed_frames(smoothing, said)):
                columns.append(self._columns(len(columns), log_p.cpu(), labels, first))
        ignored = UNLABELLED if labels.dim() > 1 else None
        self._scores.update(torch.stack(columns), unchanged(labels, self._before[-1], ignored), blocks)
        self._before[-1] = labels[-1]
        self._seen += len(labels)

    def _columns(self, condition: int, log_p: Tensor, labels: Tensor, first: int) -> Tensor:
        scored = frame_columns(log_p, labels, first)
        classes = log_p.argmax(1)
        same = unchanged(classes, self._before[condition])
        self._before[condition] = classes[-1]
        trace = self._scores.trace[condition, self._seen : self._seen + len(labels)] if self._traced else None
        if trace is not None:
            trace.copy_(true_probability(log_p[: len(trace)], labels[: len(trace)]))
        return torch.cat([scored, same], 1)

    def time(self, frames: Tensor, first: int, watch: Stopwatch) -> None:
        """Predict frames one by one in every way, and take the time; the first of them only warms up."""
        ways = [run for way in self._ways for run in self._runs(way)]
        for i, frame in enumerate(frames):
            seconds = []
            for run in ways:
                with watch.from_zero():
                    run(frame[None], first + i)
                seconds.append(watch.seconds)
            if i > 0:
                self._scores.time(torch.tensor(seconds, dtype=torch.float64))

    def _runs(self, way: Predictor) -> tuple[Predict, Predict]:
        smoothing = self._new()
        return way.predict, lambda frame, place: smoothing(way.predict, frame, place)


def predictors(source: RandomPasses, passes: int, fit: Fit, shape: tuple[int, ...] | None) -> list[Predictor]:
    """The ways to predict frames that were asked for; those with MC dropout only if it has some passes.

    `fit` brings logits to the size of the masks. With the shape of the frames, every way comes with spatial smoothing
    as well.
    """
    smoothed = None if shape is None else source.smoothed(shape)
    found = []
    for own, spatial in ((source, False), (smoothed, True)):
        if own is not None:
            found.append(Predictor("one pass", spatial, partial(_one_pass, own, fit)))
        if own is not None and passes and own.most is None:
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


def smoothed_frames(smoothing: TemporalSmoothing, log_p: Tensor) -> Tensor:
    """What `vs.surgery.temporal` makes of consecutive frames (T, classes, ...), going on from those before."""
    return torch.cat([smoothing(lambda said: said, frame[None]) for frame in log_p])
