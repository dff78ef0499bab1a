"""`pytest --sums ORDER`: every test as on a machine whose libraries add up in another order (`tests/worst_order.py`)."""

from collections.abc import Iterator

import pytest

from tests.worst_order import ORDERS, added_up


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sums", choices=sorted(ORDERS), help="the order in which float32 numbers are added up")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    order = item.config.getoption("--sums")
    if order is None:
        return (yield)
    with added_up(order):
        return (yield)
