"""The one shape every table has: a row per number, with the unit it belongs to and its 95 % interval.

Where there are numbers per layer and head, every unit has one row for all of its heads together (the mean over heads,
image by image) and one per head. Values are means over images, intervals are over images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate
from vitscope.results.possible import within_possible

COLUMNS = ("unit", "kind", "stage", "depth", "quantity", "value", "low", "high", "n")


@dataclass(frozen=True)
class UnitRow:
    """What a table or a plot has to know about a unit of a model."""

    name: str
    kind: str
    stage: int
    depth: float
    map_shape: tuple[int, int, int] | None = None
    downsamples: bool = False
    taken: str = ""  # of its map, where an activation follows its addition: "after relu", or "before relu"

    @classmethod
    def of(cls, unit: Any, stream: str | None = None) -> UnitRow:
        """The row of an anatomy's unit; `stream` tells which map after it is measured, if one is."""
        side = {"read": "after", "sum": "before"}.get(stream or "")
        taken = f"{side} {unit.activation}" if side and unit.activation else ""
        size = (unit.map_shape, bool(unit.downsamples))
        return cls(unit.name, unit.kind, unit.stage, float(unit.depth), *size, taken)


def tidy(
    quantity: str | Sequence[str],
    value: Sequence[float] | np.ndarray,
    low: Sequence[float] | np.ndarray,
    high: Sequence[float] | np.ndarray,
    n: int,
    units: Sequence[UnitRow] | None = None,
    **extra: Sequence[Any] | np.ndarray,
) -> pd.DataFrame:
    """A tidy table: one row per entry of `value`; without `units` the numbers belong to the whole model.

    Intervals end at what is possible (`results.possible`). `extra` are an exam's own columns (frequency, head, batch
    ...); they come last.
    """
    names = [quantity] * len(value) if isinstance(quantity, str) else list(quantity)
    found = Estimate(*(np.array(numbers, dtype=np.float64) for numbers in (value, low, high)))
    for name in dict.fromkeys(names):
        own = np.array([other == name for other in names])
        _, found.low[own], found.high[own] = within_possible(name, found.at(own))
    return tidy_differences(names, *found, n, units, **extra)


def tidy_differences(
    quantities: Sequence[str],
    value: Sequence[float] | np.ndarray,
    low: Sequence[float] | np.ndarray,
    high: Sequence[float] | np.ndarray,
    n: int,
    units: Sequence[UnitRow] | None = None,
    **extra: Sequence[Any] | np.ndarray,
) -> pd.DataFrame:
    """The same, where each number is of one model minus that of another, and may be below 0 whatever it is of."""
    rows = len(value)

    def of_units(name: str) -> list[Any]:
        return [None] * rows if units is None else [getattr(unit, name) for unit in units]

    columns: Mapping[str, Any] = {
        "unit": of_units("name"),
        "kind": of_units("kind"),
        "stage": pd.array(of_units("stage"), dtype="Int64"),
        "depth": np.array(of_units("depth"), dtype=np.float64),
        "quantity": list(quantities),
        "value": np.asarray(value, dtype=np.float64),
        "low": np.asarray(low, dtype=np.float64),
        "high": np.asarray(high, dtype=np.float64),
        "n": np.full(rows, n, dtype=np.int64),
        **extra,
    }
    return pd.DataFrame(columns)


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimated:
    """The part of a result that holds its main numbers, with their 95 % intervals."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def estimate(self) -> Estimate[np.ndarray]:
        """All of them together."""
        return Estimate(self.value, self.low, self.high)


def column(
    numbers: Any, names: Sequence[str], quantity: str, rows: Any = slice(None)
) -> Estimate[np.ndarray]:
    """One quantity of arrays `value`, `low` and `high` with a column for each of `names`."""
    return Estimate(numbers.value, numbers.low, numbers.high).at((rows, names.index(quantity)))


def tidy_columns(
    numbers: Any, names: Sequence[str], n: int, units: Sequence[UnitRow] | None = None, **extra: Any
) -> pd.DataFrame:
    """`tidy`, quantity by quantity, of arrays `value`, `low` and `high` with a column for each of `names`."""
    return pd.concat(
        [tidy(name, *column(numbers, names, name), n, units, **extra) for name in names], ignore_index=True
    )


def directions(table: pd.DataFrame) -> pd.DataFrame:
    """Per kind of unit, across how many units a quantity falls or rises (their rows called `change`).

    A unit counts only if the interval of its change leaves out 0; the others are unclear. Columns: kind,
    units, falls, rises, unclear.
    """
    change = table[(table["quantity"] == "change") & table["value"].notna() & table["unit"].notna()]
    falls, rises = change["high"] < 0, change["low"] > 0
    counted = pd.DataFrame({"kind": change["kind"], "units": 1, "falls": falls, "rises": rises})
    counted["unclear"] = ~(falls | rises)
    return counted.groupby("kind", sort=False).sum().astype(int).reset_index()


ALL_HEADS = -1  # the head number of a row that belongs to the layer


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadRows(Estimated):
    """The part of a result that such exams share; `value`, `low` and `high` are (rows, quantities)."""

    quantities: ClassVar[tuple[str, ...]]

    n: int
    units: tuple[UnitRow, ...]
    skipped: tuple[tuple[str, str], ...]  # units that were left out, and why
    row_unit: np.ndarray  # index of the unit of each row
    head: np.ndarray  # its head; -1: all heads of the layer

    def of(self, quantity: str) -> Estimate[np.ndarray]:
        """Value and interval of one quantity, a number per row."""
        return column(self, self.quantities, quantity)

    @property
    def layers(self) -> np.ndarray:
        """Per row, whether it belongs to a layer."""
        return self.head == ALL_HEADS

    def table(self) -> pd.DataFrame:
        """A tidy table, quantity by quantity; the column `head` is empty where a row belongs to the layer."""
        return pd.concat([self.rows(name, self.of(name)) for name in self.quantities], ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """The rows of layers."""
        table = self.table()
        return table[table["head"].isna()].drop(columns="head").reset_index(drop=True)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The numbers, and the units that were left out with the reason."""
        skipped = pd.DataFrame(list(self.skipped), columns=["unit", "reason"])
        return {**super().tables(), "skipped": skipped}  # type: ignore[misc]

    def rows(self, quantity: str, numbers: Estimate[np.ndarray]) -> pd.DataFrame:
        """The table of one quantity with a number per row."""
        units = [self.units[i] for i in self.row_unit]
        table = tidy(quantity, *numbers, self.n, units)
        heads = [None if h == ALL_HEADS else h for h in self.head.tolist()]
        return table.assign(head=pd.array(heads, dtype="Int64"))
