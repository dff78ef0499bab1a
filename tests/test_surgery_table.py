"""Every operation on every family, against the committed table (docs/surgery/families.csv)."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from tests.surgery_table import FAMILIES, OPERATIONS, WORKS, Family, row

TABLE = Path(__file__).parents[1] / "docs" / "surgery" / "families.csv"


def committed() -> pd.DataFrame:
    return pd.read_csv(TABLE, index_col="family")


def agrees(family: Family, operations: Sequence[str]) -> None:
    seen = pd.Series(row(family, operations))
    wanted = committed().loc[family.name]
    assert ((seen == WORKS) == (wanted[seen.index] == WORKS)).all(), seen[seen != WORKS].to_string()


def share(number: int) -> list[str]:
    """Of every second family, a fifth of the operations, another one in turn; of the others, none."""
    return list(OPERATIONS)[4 * (number // 2) % 5 :: 5] if number % 2 else []


@pytest.mark.parametrize("number", range(1, len(FAMILIES), 2), ids=lambda number: FAMILIES[number].name)
def test_every_second_family_and_every_operation(number: int) -> None:
    agrees(FAMILIES[number], share(number))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(FAMILIES)), ids=lambda number: FAMILIES[number].name)
def test_every_operation_on_every_family(number: int) -> None:
    agrees(FAMILIES[number], [operation for operation in OPERATIONS if operation not in share(number)])


def test_every_operation_is_seen_to_work_without_the_slow_tests() -> None:
    table = committed()
    seen = [(op, table.loc[family.name, op]) for n, family in enumerate(FAMILIES) for op in share(n)]
    assert {op for op, said in seen if said == WORKS} == set(OPERATIONS)
    assert sum(said != WORKS for _, said in seen) >= 10  # refusals too


def test_the_table_is_as_wide_and_as_long_as_it_should_be() -> None:
    table = committed()
    assert list(table.index) == [family.name for family in FAMILIES]
    assert list(table.columns) == list(OPERATIONS)
    assert len(table) >= 12
    assert (table == WORKS).any().all()  # every operation works somewhere
    assert (table == WORKS).sum(axis=1).min() >= 5
