"""Units of a model beside one another: how a number changes across them, its mean over them, and how alike they are.

A claim such as "MLPs raise high frequencies" is judged on one model, all of whose MLPs were measured: their mean change
is a number of this model, which is uncertain only because of the images. It says nothing about other models. Where the
units' numbers were measured image by image, so was the interval of their mean; else it is

    [mean of the units' lower ends, mean of their upper ends]

which is right if the errors of all units go together, and too wide otherwise. How far units differ is told beside the
mean, because a single large one can decide it.

Are units of one stage more alike than units of different stages? With S the similarity of units i and j, i < j,

    block structure = mean of S inside a stage - mean of S between stages
    block contrast  = sum_d m_d (the same difference among pairs at distance d) / sum_d m_d

where the distance of a pair is d = j - i and m_d is the smaller of the two numbers of pairs at distance d. Units of
one stage are also close to each other, so that similarity which only decays with distance has a block structure
in the first sense; the second one compares pairs at equal distance and does not see it. Both are linear in S.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate, HasEstimate
from vitscope.results import Result, UnitRow, tidy
from vitscope.results.numbers import plural, rows_of, with_interval
from vitscope.results.table import Estimated


@dataclass(frozen=True, eq=False, kw_only=True)
class UnitChanges(Estimated):
    """The part of a result that feature exams share: arrays are (units, ...) and (kinds, ...)."""

    n: int
    units: tuple[UnitRow, ...]
    change: Estimate[
        np.ndarray
    ]  # across each unit, paired by image; NaN where it has none comparable before it
    kinds: tuple[str, ...]
    kind_change: Estimate[np.ndarray]  # mean over the units of each kind

    def change_rows(
        self, quantity: str = "change", column: int | None = None, **extra: np.ndarray
    ) -> pd.DataFrame:
        """The changes across each unit, then those of each kind, which belong to no one unit.

        `column` is that of the arrays where there are several numbers per unit, `extra` columns of the rows of units.
        """
        at = (slice(None),) if column is None else (slice(None), column)
        rows = [
            tidy(quantity, *self.change.at(at), self.n, self.units, **extra),
            tidy(quantity, *self.kind_change.at(at), self.n).assign(kind=list(self.kinds)),
        ]
        return pd.concat(rows, ignore_index=True)


@dataclass(frozen=True)
class UnitMean(HasEstimate[float]):
    """A mean over units with its 95 % interval over images, and the least and the most that any unit does."""

    estimate: Estimate[float]
    units: int
    least: float
    most: float

    def spread(self, what: str = "unit", scale: str = ".3g") -> str:
        """Between what the single units lie, in words."""
        if self.units == 1:
            return f"1 {what}"
        return f"{self.units} {what}s from {self.least:{scale}} to {self.most:{scale}}"


@dataclass(frozen=True)
class Changes:
    """The mean change across the units of a kind, and across how many of them it certainly falls or rises."""

    mean: UnitMean
    falls: int
    rises: int

    @property
    def counts(self) -> str:
        """Across how many units, in words."""
        return f"{self.falls} of {self.mean.units} clearly fall, {self.rises} clearly rise"

    @property
    def spread(self) -> str:
        """The counts, and between what the single units lie."""
        between = f", from {self.mean.least:+.3g} to {self.mean.most:+.3g}" if self.mean.units > 1 else ""
        return f"{self.counts}{between}"


def changes_of(table: pd.DataFrame, kind: str, beyond: float = 0.0, until: float = 2.0) -> Changes | None:
    """The changes across units of a kind whose depth is in [beyond, until), from a result's table."""
    known = table[(table["quantity"] == "change") & (table["kind"] == kind) & table["value"].notna()]
    own = known["unit"].notna()
    units = known[own & (known["depth"] >= beyond) & (known["depth"] < until)]
    if units.empty:
        return None
    # The interval of the mean over images was measured for all units of the kind together.
    whole = known[~own] if len(units) == own.sum() else known[:0]
    measured = (float(whole["low"].iloc[0]), float(whole["high"].iloc[0])) if len(whole) else None
    value, low, high = (units[column].to_numpy() for column in ("value", "low", "high"))
    mean = mean_over_units(value, low, high, measured)
    return Changes(mean, int((units["high"] < 0).sum()), int((units["low"] > 0).sum()))


def changes_in_words(result: Result, what: str) -> str:
    """How `what` ("high frequencies change") on average across the units of each kind, and where most."""
    table = result.summary()
    changes = rows_of(table, "change")
    units = changes[changes["unit"].notna()]
    if units.empty:
        return ""
    said = []
    for kind in dict.fromkeys(units["kind"]):
        found = changes_of(table, kind)
        assert found is not None
        value, low, high = found.mean.estimate
        said.append(f"{value:+.3g} [{low:+.3g}, {high:+.3g}] across {plural(kind)} ({found.counts})")
    rows: list[Any] = list(units.itertuples())
    strongest = max(rows, key=lambda row: abs(row.value))
    return (
        f"On average {what} by {'; '.join(said)}. "
        f"The largest change is {with_interval(strongest)} across {strongest.unit} ({strongest.kind})."
    )


def mean_over_units(
    value: Sequence[float] | np.ndarray,
    low: Sequence[float] | np.ndarray,
    high: Sequence[float] | np.ndarray,
    measured: tuple[float, float] | None = None,
) -> UnitMean:
    """The mean of the effects of one or more units; `measured` is its interval, if it was measured image by image."""
    effect, lowest, highest = (np.asarray(numbers, dtype=np.float64) for numbers in (value, low, high))
    ends = measured or (float(lowest.mean()), float(highest.mean()))
    mean = Estimate(float(effect.mean()), *ends)
    return UnitMean(mean, len(effect), float(effect.min()), float(effect.max()))


SCORES = ("block_structure", "block_contrast")
PARTS = 4  # that a model of one stage is cut into, for comparison with models of several


def stages_of(units: Sequence[UnitRow]) -> np.ndarray:
    """The stage of each unit; the quarters of a model that has one stage only, in the place of stages."""
    stages = np.array([unit.stage for unit in units], dtype=np.int64)
    if len(set(stages.tolist())) > 1:
        return stages
    return np.arange(len(units), dtype=np.int64) * PARTS // max(len(units), 1)


def score_weights(stages: np.ndarray) -> np.ndarray:
    """(2, units, units): what to multiply a similarity matrix with, and sum, to get `SCORES`.

    NaN where a score does not exist because there are no pairs to compare.
    """
    n = len(stages)
    distance = np.arange(n)[None, :] - np.arange(n)[:, None]
    same = stages[:, None] == stages[None, :]
    structure = _difference(same & (distance > 0), ~same & (distance > 0))
    contrast, total = np.zeros((n, n)), 0
    for d in range(1, n):
        inside, between = same & (distance == d), ~same & (distance == d)
        if (weight := min(int(inside.sum()), int(between.sum()))) > 0:
            contrast += weight * _difference(inside, between)
            total += weight
    return np.stack([structure, contrast / total if total else np.full((n, n), np.nan)])


def _difference(inside: np.ndarray, between: np.ndarray) -> np.ndarray:
    if not inside.any() or not between.any():
        return np.full(inside.shape, np.nan)
    return inside / inside.sum() - between / between.sum()
