"""Results with numbers per layer and head.

Every unit that is measured has one row for all of its heads together (the mean over heads, image by image) and
one per head. Values are means over images, intervals are over images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vitscope.core import pd
from vitscope.results import UnitRow, column, tidy

ALL_HEADS = -1  # the head number of a row that belongs to the layer


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadRows:
    """The part of a result that such exams share; `value`, `low` and `high` are (rows, quantities)."""

    quantities: ClassVar[tuple[str, ...]]

    n: int
    units: tuple[UnitRow, ...]
    skipped: tuple[tuple[str, str], ...]  # units that were left out, and why
    row_unit: np.ndarray  # index of the unit of each row
    head: np.ndarray  # its head; -1: all heads of the layer
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def of(self, quantity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Value and interval of one quantity, a number per row."""
        return column(self, self.quantities, quantity)

    @property
    def layers(self) -> np.ndarray:
        """Per row, whether it belongs to a layer."""
        return self.head == ALL_HEADS

    def table(self) -> pd.DataFrame:
        """A tidy table, quantity by quantity; the column `head` is empty where a row belongs to the layer."""
        return pd.concat([self.rows(name, *self.of(name)) for name in self.quantities], ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """The rows of layers."""
        table = self.table()
        return table[table["head"].isna()].drop(columns="head").reset_index(drop=True)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The numbers, and the units that were left out with the reason."""
        skipped = pd.DataFrame(list(self.skipped), columns=["unit", "reason"])
        return {**super().tables(), "skipped": skipped}  # type: ignore[misc]

    def rows(self, quantity: str, value: np.ndarray, low: np.ndarray, high: np.ndarray) -> pd.DataFrame:
        """The table of one quantity with a number per row."""
        units = [self.units[i] for i in self.row_unit]
        table = tidy(quantity, value, low, high, self.n, units)
        heads = [None if h == ALL_HEADS else h for h in self.head.tolist()]
        return table.assign(head=pd.array(heads, dtype="Int64"))
