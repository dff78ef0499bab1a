"""Every operation on every family, against the committed table (docs/surgery/families.csv)."""

from pathlib import Path

import pandas as pd
import pytest

from tests.surgery_table import FAMILIES, OPERATIONS, WORKS, Family, row

TABLE = Path(__file__).parents[1] / "docs" / "surgery" / "families.csv"


def committed() -> pd.DataFrame:
    return pd.read_csv(TABLE, index_col="family")


@pytest.mark.parametrize("family", [pytest.param(family, id=family.name) for family in FAMILIES])
def test_a_family_goes_through_every_operation(family: Family) -> None:
    seen = pd.Series(row(family))
    wanted = committed().loc[family.name]
    assert ((seen == WORKS) == (wanted[seen.index] == WORKS)).all(), seen[seen != WORKS].to_string()


def test_the_table_is_as_wide_and_as_long_as_it_should_be() -> None:
    table = committed()
    assert list(table.index) == [family.name for family in FAMILIES]
    assert list(table.columns) == list(OPERATIONS)
    assert len(table) >= 12
    assert (table == WORKS).any().all()  # every operation works somewhere
    assert (table == WORKS).sum(axis=1).min() >= 5
