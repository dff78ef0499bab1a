"""Scores of the predictions of frames, with intervals that know that neighbouring frames are alike.

    consistency = share of points whose predicted class is that of the frame before
    ratio       = what temporal smoothing leaves of error, nll, brier, ece and flips (1 - consistency)

A point is a frame with a label, or a labelled point of a mask. Frames of a stream are not independent, so the bootstrap
draws blocks of consecutive frames, or whole sequences, in the place of images: every frame of a block has the same
Poisson(1) weight. Where all frames agree there is still an interval: that of as many answers as there are blocks.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.core.bootstrap import (
    REPLICATES,
    correlation,
    of_few,
    percentile_interval,
    poisson_weights,
    standard_error,
)
from vitscope.core.errors import BadData, VitscopeError
from vitscope.core.statistics import Estimate, difference_interval, difference_of, score_interval
from vitscope.data.frames import UNLABELLED
from vitscope.engine.condition_scores import COLUMNS, FILLED, filled_bins, score_columns
from vitscope.engine.conditions import SHARES, mean_scores
from vitscope.engine.exam import ProcedureSums
from vitscope.engine.pass_scores import relative_throughput
from vitscope.findings.temporal import KEPT, QUANTITIES, RATIOS

AT_ONCE = 1 << 16  # points of masks that are scored together
ENOUGH_SEQUENCES = 20  # to draw whole sequences
BLOCK = 25  # frames to a block if there are fewer: several times the memory of the smoothing
FEWEST_BLOCKS = 5  # below which a bootstrap says nothing
DEFINED = 0.95  # of the replicates of a ratio must be, or it has no interval


def blocks_of(lengths: Sequence[int], block: int | None = None) -> tuple[list[np.ndarray], int]:
    """The block of every frame, per sequence, and the frames to a block; 0: a sequence is a block."""
    whole = len(lengths) >= ENOUGH_SEQUENCES if block is None else block == 0
    size = 0 if whole else (BLOCK if block is None else block)
    found, first = [], 0
    for length in lengths:
        own = np.zeros(length, np.int64) if whole else np.arange(length) // size
        found.append(first + own)
        first += int(own[-1]) + 1
    return found, size


def frame_columns(log_p: Tensor, labels: Tensor, first: int) -> Tensor:
    """(T, COLUMNS + FILLED): what every frame adds to the sums, the points of a mask together.

    `log_p` is (T, classes) for labels (T,), or (T, classes, H, W) for masks (T, H, W) in which 255 is not labelled;
    `first` is the place of the first frame in the data, for messages.
    """
    if log_p.shape[:1] + log_p.shape[2:] != labels.shape or log_p.shape[1] < 2:
        seen, wanted = tuple(log_p.shape), ("frames", "classes", *labels.shape[1:])
        raise VitscopeError(
            f"the model puts out {seen} for these frames, expected {wanted}: classes for labels, maps for masks"
        )
    points, targets = log_p.movedim(1, -1).flatten(0, -2), labels.flatten()
    frames = torch.arange(len(labels)).repeat_interleave(len(targets) // len(labels))
    known = _labelled(labels).flatten()
    _check(points, targets, known, frames + first)
    columns = torch.zeros(len(labels), COLUMNS + FILLED, dtype=torch.float64)
    for some in known.nonzero()[:, 0].split(AT_ONCE):
        own = score_columns(points[some], targets[some])
        columns.index_add_(0, frames[some], torch.cat([own, filled_bins(own)], 1))
    return columns


def _labelled(labels: Tensor) -> Tensor:
    """Which points have a class: of masks (T, H, W) not all, of labels (T,) every one."""
    return labels != UNLABELLED if labels.dim() > 1 else torch.ones_like(labels, dtype=torch.bool)


def _check(points: Tensor, targets: Tensor, known: Tensor, frames: Tensor) -> None:
    classes = points.shape[1]
    outside = known & ((targets < 0) | (targets >= classes))
    if outside.any():
        at = int(outside.nonzero()[0])
        raise BadData(
            f"frame {int(frames[at])} has class {int(targets[at])}, the model has outputs 0 to {classes - 1}; "
            "give the model as many classes as the data, or correct the labels"
        )
    bad = ~torch.isfinite(points).all(1)
    if bad.any():
        raise VitscopeError(
            f"the outputs for frame {int(frames[int(bad.nonzero()[0])])} are not finite; check the weights and the "
            "preprocessing"
        )


def unchanged(classes: Tensor, before: Tensor | None, ignored: int | None = None) -> Tensor:
    """(T, 2): per frame, how many points can be compared with the frame before, and how many have its class.

    `before` are the classes of the frame before the first; None: it begins the sequence. `ignored` is no class.
    """
    frames = classes.reshape(len(classes), -1)
    last = torch.cat([frames[:1] if before is None else before.reshape(1, -1), frames[:-1]])
    known = torch.ones_like(frames, dtype=torch.bool)
    if ignored is not None:
        known = (frames != ignored) & (last != ignored)
    found = torch.stack([known.sum(1), (known & (frames == last)).sum(1)], 1).double()
    if before is None:
        found[0] = 0.0
    return found


def true_probability(log_p: Tensor, labels: Tensor) -> Tensor:
    """(T,): the probability of the true class, mean over the labelled points of a frame; NaN if it has none."""
    known = _labelled(labels)
    p = log_p.gather(1, (labels * known).unsqueeze(1)).squeeze(1).double().exp()
    return (p * known).reshape(len(labels), -1).sum(1) / known.reshape(len(labels), -1).sum(1)


class FrameScores(ProcedureSums):
    """Sums over frames, plain and in every replicate; conditions come in pairs: as it is, and smoothed over time."""

    frames: Tensor
    sums: Tensor  # (conditions, 1 + replicates, COLUMNS + FILLED + 2): scores, bins, comparable points, unchanged
    labels: Tensor  # (1 + replicates, 2): the same of the labels
    trace: Tensor  # (conditions, frames): `true_probability` in the first sequence
    timed: Tensor  # frames
    seconds: Tensor  # (conditions,)
    products: Tensor  # (conditions, conditions)

    def __init__(self, conditions: int, traced: int, blocks: int, seed: int) -> None:
        super().__init__()
        self._seed, self._blocks, self._enough = seed, blocks, blocks >= FEWEST_BLOCKS
        self.add_sums(
            sums=(conditions, 1 + REPLICATES, COLUMNS + FILLED + 2),
            labels=(1 + REPLICATES, 2),
            trace=(conditions, traced),
            seconds=(conditions,),
            products=(conditions, conditions),
        )
        self.add_counts("frames", "timed")

    def update(self, columns: Tensor, labels: Tensor, blocks: np.ndarray) -> None:
        """Take in consecutive frames: (conditions, T, columns), (T, 2) of the labels, and the block of each."""
        drawn, place = np.unique(blocks, return_inverse=True)
        weights = torch.from_numpy(poisson_weights(drawn, self._seed)[place])
        self.sums += weights.T @ columns
        self.labels += weights.T @ labels
        self.frames += len(blocks)

    def time(self, seconds: Tensor) -> None:
        """Take in how long each condition took for one frame."""
        self.timed += 1
        self.seconds += seconds
        self.products += seconds.outer(seconds)

    def compute(self) -> dict[str, Any]:
        """Every quantity with its interval; differences and ratios of smoothed predictions to those of one frame."""
        bins = slice(COLUMNS, COLUMNS + FILLED)
        parts = [{"sums": sums[:, :COLUMNS], "filled": sums[0, bins]} for sums in self.sums]
        scored = [mean_scores([part], self._blocks, blocks=True) for part in parts]
        drawn = np.stack([numbers for numbers, _, _ in scored])
        with np.errstate(invalid="ignore", divide="ignore"):
            same = (self.sums[..., -1:] / self.sums[..., -2:-1]).numpy()
            labels = (self.labels[:, 1] / self.labels[:, 0]).numpy()
            drawn = np.concatenate([drawn, same], 2)
            ratio = _beside(_worse(drawn), np.divide)
        estimate, change = self._estimate(drawn), self._estimate(_beside(drawn, np.subtract))
        if self._enough:
            for row, (_, low, high) in enumerate(scored):
                estimate.low[row, : len(low)], estimate.high[row, : len(high)] = low, high
                estimate.low[row, -1], estimate.high[row, -1] = self._same(drawn[row, :, -1])
            self._compare(drawn, estimate, change)
        speed = relative_throughput(self.seconds.numpy(), self.products.numpy(), int(self.timed))
        kept = drawn[:, :, [QUANTITIES.index(quantity) for quantity in KEPT]].swapaxes(1, 2)
        return {
            "n": int(self.frames),
            "timed": int(self.timed),
            **estimate._asdict(),
            "change": change,
            "ratio": self._estimate(ratio),
            "throughput": np.column_stack(speed),
            "labels": np.array([labels[0], *self._same(labels)]),
            "trace": self.trace.numpy().copy(),
            "drawn": np.ascontiguousarray(kept),
        }

    def _same(self, drawn: np.ndarray) -> tuple[float, float]:
        """The interval of a consistency (1 + replicates,)."""
        if not self._enough or not np.isfinite(drawn[0]):
            return np.nan, np.nan
        low, high = score_interval(drawn[0], of_few(standard_error(drawn[1:]), self._blocks), self._blocks)
        return float(low), float(high)

    def _compare(self, drawn: np.ndarray, own: Estimate[np.ndarray], change: Estimate[np.ndarray]) -> None:
        """Write the intervals of differences of shares and of calibration errors over those of the bootstrap."""
        ece, (_, low, high) = QUANTITIES.index("ece"), change
        for row in range(1, len(drawn), 2):
            for i in map(QUANTITIES.index, (*SHARES, "consistency")):
                less = drawn[row, :, i] - drawn[row - 1, :, i]
                error = of_few(standard_error(less[1:]), self._blocks)
                low[row, i], high[row, i] = difference_interval(less[0], error, self._blocks)
            together = correlation(drawn[row, 1:, ece], drawn[row - 1, 1:, ece])
            both = own.at((row, ece)), own.at((row - 1, ece))
            low[row, ece], high[row, ece] = difference_of(*both, together)

    def _estimate(self, drawn: np.ndarray) -> Estimate[np.ndarray]:
        """Of (conditions, 1 + replicates, quantities); no interval of too few blocks, nor of what is not there."""
        finite = np.where(np.isfinite(drawn), drawn, np.nan)
        there = np.isfinite(drawn).mean(1, keepdims=True) > DEFINED
        finite = np.where(there & self._enough, finite, np.nan)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="All-NaN slice")
            low, high = percentile_interval(finite[:, 1:].swapaxes(0, 1))
        return Estimate(drawn[:, 0], np.array(low), np.array(high))


def _beside(drawn: np.ndarray, compared: np.ufunc) -> np.ndarray:
    """Every smoothed condition compared with the one before it, which is not; NaN for these."""
    found = np.full_like(drawn, np.nan)
    found[1::2] = compared(drawn[1::2], drawn[::2])
    return found


def _worse(drawn: np.ndarray) -> np.ndarray:
    """`RATIOS` of (conditions, 1 + replicates, quantities): the less the better."""
    by_name = {name: drawn[..., i] for i, name in enumerate(QUANTITIES)}
    by_name |= {"error": 1.0 - by_name["accuracy"], "flips": 1.0 - by_name["consistency"]}
    return np.stack([by_name[name] for name in RATIOS], -1)
