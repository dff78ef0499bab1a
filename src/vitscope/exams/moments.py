"""Mean and spread over images of numbers measured on every unit's map: what feature exams have in common."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.errors import VitscopeError
from vitscope.exams.base import Accumulator, Batch, Subject
from vitscope.exams.interval import mean_interval


@dataclass(frozen=True)
class Estimate:
    """Numbers with their 95 % intervals over images."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


class FeatureMoments(Accumulator):
    """Sums over images of what `measure` gives per unit, and of the change of its last number across a unit.

    The change is taken image by image, so its interval is much narrower than that of either level.
    """

    needs_maps = True

    n: Tensor
    total: Tensor
    squares: Tensor
    change_total: Tensor
    change_squares: Tensor

    def __init__(self, subject: Subject, widths: tuple[int, ...]) -> None:
        super().__init__(subject)
        self.ends = np.cumsum(widths) - 1  # column of each unit's last number
        self.owner = np.repeat(np.arange(len(widths)), widths)  # unit of each column
        sizes = {"total": sum(widths), "squares": sum(widths)}
        sizes |= {"change_total": len(widths), "change_squares": len(widths)}
        for name, size in sizes.items():
            self.add_state(name, torch.zeros(size, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("n", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, batch: Batch) -> None:
        """Take in the numbers of one batch of images."""
        values = torch.cat([v.flatten(1) for v in batch.values], 1).cpu().double()  # (N, columns)
        self._check_finite(values, batch.indices)
        last = values[:, self.ends]
        change = last.diff(dim=1, prepend=last[:, :1])
        self.n += len(values)
        self.total += values.sum(0)
        self.squares += values.square().sum(0)
        self.change_total += change.sum(0)
        self.change_squares += change.square().sum(0)

    def levels(self) -> Estimate:
        """Every number, in the order of the columns."""
        n = int(self.n)
        return Estimate(*mean_interval(self.total.numpy().copy(), self.squares.numpy().copy(), n))

    def changes(self) -> Estimate:
        """Per unit, the last number minus that of the unit before; NaN for the first unit."""
        total, squares = self.change_total.numpy().copy(), self.change_squares.numpy().copy()
        total[:1] = np.nan
        return Estimate(*mean_interval(total, squares, int(self.n)))

    def common(self) -> dict[str, Any]:
        """The units are part of every feature exam's result."""
        return {**super().common(), "units": self.subject.units}

    def defined(self) -> np.ndarray:
        """Per unit, whether its numbers exist at all (a single point has no variance)."""
        return np.ones(len(self.subject.units), dtype=bool)

    def _check_finite(self, values: Tensor, indices: Tensor) -> None:
        bad = ~torch.isfinite(values) & torch.from_numpy(self.defined()[self.owner])
        if bad.any():
            image, column = bad.nonzero()[0].tolist()
            unit = self.subject.units[self.owner[column]].name
            raise VitscopeError(
                f"the features after '{unit}' are not finite for image {int(indices[image])}; "
                "check the weights and the preprocessing, or run the model in float32"
            )
