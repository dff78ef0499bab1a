"""How fast several ways to predict are beside the first of them, on the same images.

With t_ij the time that way j takes for piece i of the images, m pieces and way 0 the plain model,

    throughput_j = sum_i t_i0 / sum_i t_ij          e_i = t_i0 - throughput_j t_ij
    interval: throughput_j -+ student(m - 1) sqrt(m / (m - 1) sum_i e_i^2) / sum_i t_ij

On a CPU time is that of this process on all its cores, which other programs do not lengthen; elsewhere it is the
clock's, after the device has finished.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from vitscope.core.statistics import student


class Stopwatch:
    """Measures blocks of work on one device."""

    def __init__(self, device: torch.device) -> None:
        self._on_cpu = device.type == "cpu"
        self._device = device
        self.seconds = 0.0  # in all blocks since `reset`

    @property
    def clock(self) -> str:
        """What is measured, in words."""
        return "CPU time" if self._on_cpu else "wall time"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time what happens inside."""
        start = self._now()
        try:
            yield
        finally:
            self.seconds += self._now() - start

    def reset(self) -> None:
        """Begin again at zero."""
        self.seconds = 0.0

    def _now(self) -> float:
        if self._on_cpu:
            return time.process_time()
        torch.accelerator.synchronize(self._device)
        return time.perf_counter()


def relative_throughput(
    seconds: np.ndarray, products: np.ndarray, pieces: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(ways,) each: throughput relative to way 0, and its 95 % interval; NaN for fewer than two pieces.

    Args:
        seconds: (ways,) sums over pieces.
        products: (ways, ways) sums over pieces of the products of two ways' times.
        pieces: How many.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        value = seconds[0] / seconds
        if pieces < 2:
            return value, np.full_like(value, np.nan), np.full_like(value, np.nan)
        squares = products[0, 0] - 2 * value * products[0] + value**2 * np.diag(products)
        error = np.sqrt(pieces / (pieces - 1) * np.maximum(squares, 0.0)) / seconds
    half = student(pieces - 1) * error
    return value, value - half, value + half
