"""The tests as on a machine whose libraries add up in another order (`worst_order.py`).

`pytest --sums ORDER` runs all of them so; those marked `any_order` also run under each order when nobody asks.
"""

import gc
from collections.abc import Iterator

import pytest

from tests.worst_order import ORDERS, added_up


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sums", choices=list(ORDERS), help="the order in which float32 numbers are added up")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("any_order") and not metafunc.config.getoption("--sums"):
        metafunc.fixturenames.append("sums")
        metafunc.parametrize("sums", [None, *ORDERS], ids=["as it is", *ORDERS])


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not go through it again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    order = item.config.getoption("--sums") or parameters.get("sums")
    if order is None:
        return (yield)
    with added_up(order):
        return (yield)
