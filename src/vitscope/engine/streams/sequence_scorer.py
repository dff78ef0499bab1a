"""One sequence of frames after the other, predicted in every way, with and without temporal smoothing.

Ways to predict the frames of a stream, each of which can be smoothed over time.

one pass      what the model says of a frame
mc dropout    the average over several random passes of the same frame
one draw      one random pass, of another network for every frame: smoothed over time it is VQ-BNN
"""

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.data.frames import UNLABELLED
from vitscope.engine.prediction.pass_sources import RandomPasses
from vitscope.engine.streams.frame_scores import FrameScores, frame_columns, true_probability, unchanged
from vitscope.engine.throughput import Stopwatch
from vitscope.surgery.temporal import TemporalSmoothing
from vitscope.surgery.tools.graft import grafts, ungraft
from vitscope.surgery.tools.predictions import log_probabilities


@dataclass(frozen=True)
class Predictor:
    """One way to predict frames."""

    name: str
    spatial: bool  # with spatial smoothing
    # from (T, C, H, W) frames and the place of the first to logarithms of probabilities, (T, classes, ...)
    predict: Callable[[Tensor, int], Tensor]


class SequenceScorer:
    """Puts frames into `scores`; condition 2 i is way i as it is, 2 i + 1 the same smoothed over time.

    Args:
        ways: To predict frames.
        rate: Of the smoothing.
        previous: Frames that it remembers.
        scores: Where the numbers go.
    """

    def __init__(self, ways: Sequence[Predictor], rate: float, previous: int, scores: FrameScores) -> None:
        self._ways, self._scores = ways, scores
        self._new = lambda: TemporalSmoothing(rate, previous).eval()
        self.begin(False)

    def begin(self, traced: bool) -> None:
        """The next frames begin a sequence; nothing of the last one is remembered.

        Args:
            traced: Keep the probabilities of the true class of its first frames.
        """
        self._smoothings = [self._new() for _ in self._ways]
        self._before: list[Tensor | None] = [None] * (1 + 2 * len(self._ways))  # classes; the labels' last
        self._seen = 0
        self._traced = traced

    def take(self, frames: Tensor, labels: Tensor, first: int, blocks: np.ndarray) -> None:
        """Take in the next frames of the sequence.

        Args:
            frames: (T, C, H, W).
            labels: (T,), or (T, H, W) classes of the points.
            first: Place of the first in the data.
            blocks: (T,), of the bootstrap.
        """
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
                watch.reset()
                with watch.running():
                    run(frame[None], first + i)
                seconds.append(watch.seconds)
            if i > 0:
                self._scores.time(torch.tensor(seconds, dtype=torch.float64))

    def _runs(
        self, way: Predictor
    ) -> tuple[Callable[[Tensor, int], Tensor], Callable[[Tensor, int], Tensor]]:
        smoothing = self._new()
        return way.predict, lambda frame, place: smoothing(way.predict, frame, place)


Fit = Callable[[Tensor], Tensor]


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
