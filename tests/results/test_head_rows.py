from dataclasses import dataclass

import numpy as np

from vitscope.results import UnitRow
from vitscope.results.table import HeadRows


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows(HeadRows):
    quantities = ("a", "b")


def rows() -> Rows:
    value = np.arange(10.0).reshape(5, 2)
    return Rows(
        n=4,
        units=(UnitRow("u", "msa", 0, 0.5), UnitRow("v", "msa", 1, 1.0)),
        skipped=(),
        row_unit=np.array([0, 0, 0, 1, 1]),
        head=np.array([-1, 0, 1, -1, 0]),
        value=value,
        low=value - 1,
        high=value + 1,
    )


def test_a_quantity_and_its_interval() -> None:
    value, low, high = rows().of("b")
    assert value.tolist() == [1, 3, 5, 7, 9]
    assert (low == value - 1).all()
    assert (high == value + 1).all()


def test_the_table_leaves_the_head_of_a_layer_empty() -> None:
    table = rows().table()
    assert table["unit"].tolist() == ["u", "u", "u", "v", "v"] * 2
    assert table["head"].isna().tolist() == [True, False, False, True, False] * 2
    assert table["value"].tolist() == [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]
    assert (table["n"] == 4).all()


def test_the_summary_is_the_layers() -> None:
    summary = rows().summary()
    assert summary["value"].tolist() == [0, 6, 1, 7]
    assert "head" not in summary
