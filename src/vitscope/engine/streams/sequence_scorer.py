"""One sequence of frames after the other, predicted in every way, with and without temporal smoothing."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from vitscope.data.streams.frames import UNLABELLED
from vitscope.engine.streams.frame_scores import FrameScores, frame_columns, true_probability, unchanged
from vitscope.engine.streams.stream_predictors import Predictor, smoothed_frames
from vitscope.engine.throughput import Stopwatch
from vitscope.surgery.temporal import TemporalSmoothing


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
