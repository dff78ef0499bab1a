"""Words for readings: rows of tables found by name, numbers with their interval, kinds of units."""

from collections.abc import Callable
from typing import Any

import pandas as pd

READINGS: dict[str, Callable[[Any], str]] = {}
_PLURAL = {"msa": "MSAs", "mlp": "MLPs", "conv": "Convs", "mixer": "mixers", "subsample": "subsampling units"}


def reads(*exams: str) -> Callable[[Callable[[Any], str]], Callable[[Any], str]]:
    """Register a function as the reading of exams."""

    def register(function: Callable[[Any], str]) -> Callable[[Any], str]:
        READINGS.update(dict.fromkeys(exams, function))
        return function

    return register


def plural(kind: str) -> str:
    """Units of a kind."""
    return _PLURAL.get(kind, f"{kind} units")


def points(row: Any) -> str:
    """A difference of shares in percentage points, with its interval."""
    text = f"{100 * row.value:.1f} points"
    return text if row.low != row.low else f"{text} [{100 * row.low:.1f}, {100 * row.high:.1f}]"


def rows_of(table: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """The known rows of one quantity, in order."""
    return table[(table["quantity"] == quantity) & table["value"].notna()]


def by_name(table: pd.DataFrame) -> dict[str, Any]:
    """Rows of whole models by quantity, or by `quantity, condition` where there are conditions; the first of each."""
    found: dict[str, Any] = {}
    for row in table[table["unit"].isna()].itertuples():
        condition = getattr(row, "condition", None)
        name = f"{row.quantity}, {condition}" if isinstance(condition, str) else str(row.quantity)
        found.setdefault(name, row)
    return found


def extremes(rows: pd.DataFrame) -> tuple[Any, Any]:
    """The rows with the least and the largest value."""
    ordered = list(rows.sort_values("value", kind="stable").itertuples())
    return ordered[0], ordered[-1]
