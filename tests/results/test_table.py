import numpy as np
import pandas as pd

from vitscope.results import UnitRow, directions, tidy
from vitscope.results.table import COLUMNS

UNITS = (
    UnitRow("stem", "stem", 0, 0.0, (8, 4, 4)),
    UnitRow("a", "msa", 0, 0.5, (8, 4, 4)),
    UnitRow("b", "msa", 1, 0.75, (8, 2, 2)),
    UnitRow("c", "mlp", 1, 1.0, (8, 2, 2), downsamples=True),
)


def test_columns_come_in_order_with_an_exams_own_last() -> None:
    table = tidy("variance", [1, 2, 3, 4], [0] * 4, [5] * 4, 7, UNITS, head=[0, 1, 2, 3])
    assert tuple(table.columns) == (*COLUMNS, "head")
    assert table["kind"].tolist() == ["stem", "msa", "msa", "mlp"]
    assert table["stage"].tolist() == [0, 0, 1, 1]
    assert (table["n"] == 7).all()


def test_numbers_of_a_whole_model_belong_to_no_unit() -> None:
    table = tidy(("accuracy", "nll"), [0.9, 0.3], [0.8, np.nan], [0.95, np.nan], 10)
    assert table["unit"].isna().all()
    assert table["stage"].isna().all()
    assert table["quantity"].tolist() == ["accuracy", "nll"]


def test_directions_count_only_what_is_clear() -> None:
    change = tidy("change", [np.nan, -1, 1, 0.1], [np.nan, -2, 0.5, -1], [np.nan, -0.5, 2, 1], 9, UNITS)
    level = tidy("variance", [1] * 4, [1] * 4, [1] * 4, 9, UNITS)
    found = directions(pd.concat([level, change])).set_index("kind")
    assert found.loc["msa"].to_dict() == {"units": 2, "falls": 1, "rises": 1, "unclear": 0}
    assert found.loc["mlp"].to_dict() == {"units": 1, "falls": 0, "rises": 0, "unclear": 1}
    assert "stem" not in found.index


def test_directions_of_a_result_without_changes_are_empty() -> None:
    assert directions(tidy("accuracy", [0.9], [0.8], [1.0], 10)).empty


def test_directions_do_not_count_the_mean_of_a_kind() -> None:
    unit = tidy("change", [-1.0], [-2.0], [-0.5], 9, UNITS[1:2])
    kind = tidy("change", [-1.0], [-2.0], [-0.5], 9).assign(kind="msa")
    assert directions(pd.concat([unit, kind]))["units"].tolist() == [1]
