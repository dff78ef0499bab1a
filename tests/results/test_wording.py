from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from vitscope.results.numbers import by_name, extremes, plural, rows_of, with_interval

TABLE = pd.DataFrame(
    {
        "unit": ["a", "b", None, None],
        "quantity": ["drop", "drop", "accuracy", "accuracy"],
        "value": [0.3, np.nan, 0.9, 0.7],
        "condition": [None, None, "clean", "noise"],
    }
)


def test_rows_are_found_by_quantity_and_condition() -> None:
    assert list(rows_of(TABLE, "drop")["unit"]) == ["a"]  # what is unknown is left out
    found = by_name(TABLE)
    assert {name: row.value for name, row in found.items()} == {
        "accuracy, clean": 0.9,
        "accuracy, noise": 0.7,
    }
    assert list(by_name(TABLE.drop(columns="condition"))) == ["accuracy"]


def test_extremes() -> None:
    low, high = extremes(TABLE.dropna(subset="value"))
    assert (low.value, high.value) == (0.3, 0.9)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.01, 0.05, "3.0 points [1.0, 5.0]"), (np.nan, np.nan, "3.0 points")],
)
def test_points(low: float, high: float, text: str) -> None:
    assert with_interval(SimpleNamespace(quantity="drop", value=0.03, low=low, high=high)) == text


def test_plural() -> None:
    assert [plural(kind) for kind in ("msa", "conv", "odd")] == ["MSAs", "Convs", "odd units"]
