"""Averages over passes: how good they are, how unsure, and how fast.

With p_t the probabilities of pass t, T passes and H(p) = -sum_k p_k log p_k in nats,

    prediction  p = 1/T sum_t p_t                  probabilities are averaged, never logits
    entropy     H(p)                               all the model is unsure of
    aleatoric   1/T sum_t H(p_t)                   data: each pass is unsure by itself
    epistemic   H(p) - 1/T sum_t H(p_t) >= 0       model: the passes contradict each other (mutual information)

With t_ij the time that way j takes for piece i of the images, m pieces and way 0 the plain model,

    throughput_j = sum_i t_i0 / sum_i t_ij          e_i = t_i0 - throughput_j t_ij
    interval: throughput_j -+ student(m - 1) sqrt(m / (m - 1) sum_i e_i^2) / sum_i t_ij

On a CPU time is that of this process on all its cores, which other programs do not lengthen; elsewhere it is the
clock's, after the device has finished.
"""

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.core.bootstrap import (
    REPLICATES,
    correlation,
    percentile_interval,
    poisson_weights,
    standard_error,
)
from vitscope.core.statistics import Estimate, difference_interval, difference_of, student, without_interval
from vitscope.engine.condition_scores import COLUMNS, FILLED, filled_bins
from vitscope.engine.conditions import replicates, scored
from vitscope.engine.exam import ProcedureSums
from vitscope.findings.passes import CHANGES, ENTROPIES
from vitscope.results.condition_rows import QUANTITIES as SCORES
from vitscope.surgery.tools.predictions import log_probabilities


class Stopwatch:
    """Measures blocks of work on one device."""

    def __init__(self, device: torch.device) -> None:
        self._on_cpu = device.type == "cpu"
        self._device = device
        self.seconds = 0.0  # in all blocks so far

    @property
    def clock(self) -> str:
        """Which time is measured: "CPU time" or "wall time"."""
        return "CPU time" if self._on_cpu else "wall time"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Inside, time is added up in `seconds`."""
        start = self._now()
        try:
            yield
        finally:
            self.seconds += self._now() - start

    def from_zero(self) -> AbstractContextManager[None]:
        """The same, forgetting what was timed before."""
        self.seconds = 0.0
        return self.running()

    def _now(self) -> float:
        if self._on_cpu:
            return time.process_time()
        torch.accelerator.synchronize(self._device)
        return time.perf_counter()


def relative_throughput(seconds: np.ndarray, products: np.ndarray, pieces: int) -> Estimate[np.ndarray]:
    """(ways,) each: throughput relative to way 0, and its 95 % interval; NaN for fewer than two pieces.

    `seconds` (ways,) are sums over pieces, `products` (ways, ways) those of the products of two ways' times.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        value = seconds[0] / seconds
        if pieces < 2:
            return without_interval(value)
        squares = products[0, 0] - 2 * value * products[0] + value**2 * np.diag(products)
        error = np.sqrt(pieces / (pieces - 1) * np.maximum(squares, 0.0)) / seconds
    half = student(pieces - 1) * error
    return Estimate(value, value - half, value + half)


def entropy(log_p: Tensor) -> Tensor:
    """(N,): of probabilities (N, classes) given by their logarithms, in nats."""
    return torch.special.entr(log_p.exp()).sum(1)


class RunningMean:
    """The average of the passes so far, in probability space, and the mean of their entropies; in float64."""

    def __init__(self) -> None:
        self.passes = 0
        self._log_sum = torch.tensor(-math.inf, dtype=torch.float64)
        self._entropies = torch.zeros((), dtype=torch.float64)

    def add(self, logits: Tensor) -> None:
        """Take in one pass (N, classes)."""
        log_p = log_probabilities(logits.detach().cpu().double())
        self._log_sum = torch.logaddexp(self._log_sum, log_p)
        self._entropies = self._entropies + entropy(log_p)
        self.passes += 1

    def log_mean(self) -> Tensor:
        """(N, classes): the logarithm of the mean probability, which is itself a logit."""
        return self._log_sum - math.log(self.passes)

    def spreads(self) -> Tensor:
        """(N, 3): `ENTROPIES` per image; what rounding leaves below 0 of the last is 0."""
        total, data = entropy(self.log_mean()), self._entropies / self.passes
        model = (total - data).clamp_min(0.0) if self.passes > 1 else torch.zeros_like(total)
        return torch.stack([total, data, model], 1)


class PassScores(ProcedureSums):
    """Sums over images of what is scored, and over batches of how long it took, for every condition."""

    n: Tensor
    sums: Tensor  # (1 + replicates, conditions, columns): the first row is plain
    filled: Tensor  # (conditions, FILLED)
    batches: Tensor
    seconds: Tensor  # (conditions,)
    products: Tensor  # (conditions, conditions)

    def __init__(self, conditions: int, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self.add_sums(sums=(1 + REPLICATES, conditions, COLUMNS + len(ENTROPIES)))
        self.add_sums(filled=(conditions, FILLED), seconds=(conditions,), products=(conditions, conditions))
        self.add_counts("n", "batches")

    def update(self, columns: Tensor, indices: Tensor, seconds: Tensor) -> None:
        """Take in one batch: (N, conditions, columns), and the time that each condition took."""
        weights = torch.from_numpy(poisson_weights(indices.cpu().numpy(), self._seed))
        self.sums += (weights.T @ columns.flatten(1)).view_as(self.sums)
        self.filled += torch.stack([filled_bins(own).sum(0) for own in columns.unbind(1)])
        self.n += len(columns)
        self.batches += 1
        self.seconds += seconds
        self.products += seconds.outer(seconds)

    def compute(self) -> dict[str, Any]:
        """Every quantity with its interval, its difference to the first condition, and its replicates."""
        parts = [
            {"sums": sums[:, :COLUMNS], "filled": filled, "n": self.n}
            for sums, filled in zip(self.sums.unbind(1), self.filled, strict=True)
        ]
        table = scored(parts, parts[0])
        means = (self.sums[..., COLUMNS:] / self.sums[..., :1]).numpy()
        scores = Estimate(table.value, table.low, table.high)
        spreads = Estimate(means[0], *percentile_interval(means[1:]))
        speeds = relative_throughput(self.seconds.numpy(), self.products.numpy(), int(self.batches))
        found = Estimate(*map(np.column_stack, zip(scores, spreads, speeds, strict=True)))
        compared = [SCORES.index(quantity) for quantity in CHANGES]
        drawn = np.stack([replicates(part["sums"])[:, compared] for part in parts])
        change = _changes(drawn, found.at((slice(None), compared)), int(self.n))
        counts = {"n": int(self.n), "batches": int(self.batches)}
        return {**counts, "drawn": drawn, **found._asdict(), "change": change}


def _changes(drawn: np.ndarray, own: Estimate[np.ndarray], n: int) -> Estimate[np.ndarray]:
    """`CHANGES` against the first condition, on the same images.

    `drawn` is (conditions, 1 + replicates, changes), `own` (conditions, changes) are the quantities themselves.
    """
    change = drawn - drawn[:1]
    low, high = map(np.array, percentile_interval(change[:, 1:].swapaxes(0, 1)))
    accuracy, ece = CHANGES.index("accuracy"), CHANGES.index("ece")
    for row in range(1, len(drawn)):
        one = change[row, :, accuracy]
        ends = difference_interval(one[0], standard_error(one[1:]), n)
        low[row, accuracy], high[row, accuracy] = ends
        together = correlation(drawn[row, 1:, ece], drawn[0, 1:, ece])
        low[row, ece], high[row, ece] = difference_of(own.at((row, ece)), own.at((0, ece)), together)
    return Estimate(change[:, 0], low, high)
