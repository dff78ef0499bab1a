"""The mean of an effect over units, with an interval that knows how far units differ.

A claim such as "MLPs raise high frequencies" is about units. Over images their mean change is known to a hair, so that
a single odd unit would decide. With m the mean and s the standard deviation of the effects of U >= 3 units, and h the
half width of the mean's interval over images,

    m +- sqrt((t s / sqrt(U))^2 + h^2),        t the 97.5 % quantile of Student's t with U - 1 degrees of freedom,

cut off at the lowest and at the highest end of the units' own intervals: where every single unit certainly has one
direction, so has their mean, however unequal they are. The cut makes it narrow where units are few: of normally
distributed effects it covers the mean in 75 % of cases with three units, 87 % with four, and 94 % with six. Fewer than
three have no spread to speak of; then the interval is over images alone, and speaks for these units only. Where h was
not measured it is the mean of the units' half widths, which it cannot exceed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vitscope.exams.interval import student

LEAST_UNITS = 3


@dataclass(frozen=True)
class UnitMean:
    """A mean over units and its 95 % interval."""

    value: float
    low: float
    high: float
    units: int

    @property
    def interval(self) -> tuple[float, float, float]:
        """Value, low and high."""
        return self.value, self.low, self.high

    def over(self, n: int, what: str = "unit") -> str:
        """What the interval is over, given the number of images."""
        if self.units < LEAST_UNITS:
            return _counted(n, "image")
        return f"{_counted(self.units, what)} and {_counted(n, 'image')}"

    def scope(self, what: str = "unit") -> str:
        """A warning where there are too few units to speak for others."""
        if self.units >= LEAST_UNITS:
            return ""
        return f"{_counted(self.units, what)}: speaks for {'this one' if self.units == 1 else 'these'} only"


def mean_over_units(
    value: Sequence[float] | np.ndarray,
    low: Sequence[float] | np.ndarray,
    high: Sequence[float] | np.ndarray,
    half: float | None = None,
) -> UnitMean:
    """The mean of the units' effects, each with its interval over images.

    Args:
        value: (units,) one or more.
        low: The lower ends.
        high: The upper ends.
        half: Half the width of the interval of the mean over images, if it was measured.
    """
    effect, lowest, highest = (np.asarray(numbers, dtype=np.float64) for numbers in (value, low, high))
    count, mean = len(effect), float(effect.mean())
    of_images = float((highest - lowest).mean() / 2) if half is None else half
    if count < LEAST_UNITS:
        return UnitMean(mean, mean - of_images, mean + of_images, count)
    of_units = student(count - 1) * float(effect.std(ddof=1)) / math.sqrt(count)
    reach = math.hypot(of_units, of_images)
    ends = np.maximum(mean - reach, lowest.min()), np.minimum(mean + reach, highest.max())
    return UnitMean(mean, float(ends[0]), float(ends[1]), count)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
