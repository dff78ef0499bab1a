"""The mean of an effect over a model's units, with its interval over images.

A claim such as "MLPs raise high frequencies" is judged on one model, all of whose MLPs were measured: their mean change
is a number of this model, which is uncertain only because of the images. It says nothing about other models. Where the
units' numbers were measured image by image, so was the interval of their mean; else it is

    [mean of the units' lower ends, mean of their upper ends]

which is right if the errors of all units go together, and too wide otherwise. How far units differ is told beside the
mean, because a single large one can decide it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class UnitMean:
    """A mean over units with its 95 % interval over images, and the least and the most that any unit does."""

    value: float
    low: float
    high: float
    units: int
    least: float
    most: float

    @property
    def interval(self) -> tuple[float, float, float]:
        """Value, low and high."""
        return self.value, self.low, self.high

    def spread(self, what: str = "unit", scale: str = ".3g") -> str:
        """Between what the single units lie, in words."""
        if self.units == 1:
            return f"1 {what}"
        return f"{self.units} {what}s from {self.least:{scale}} to {self.most:{scale}}"


def mean_over_units(
    value: Sequence[float] | np.ndarray,
    low: Sequence[float] | np.ndarray,
    high: Sequence[float] | np.ndarray,
    measured: tuple[float, float] | None = None,
) -> UnitMean:
    """The mean of the units' effects, each with its interval over images.

    Args:
        value: (units,) one or more.
        low: The lower ends.
        high: The upper ends.
        measured: The interval of the mean, if it was measured image by image.
    """
    effect, lowest, highest = (np.asarray(numbers, dtype=np.float64) for numbers in (value, low, high))
    ends = measured or (float(lowest.mean()), float(highest.mean()))
    return UnitMean(float(effect.mean()), *ends, len(effect), float(effect.min()), float(effect.max()))
