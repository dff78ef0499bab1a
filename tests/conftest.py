"""The tests as on a machine whose libraries add up in another order (`worst_order.py`).

`pytest --sums ORDER` runs those that compare numbers so, `--sums "file by file"` each file under one of the orders; the
tests marked `any_order` also run under each order when nobody asks.
"""

import gc
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.comparing import compares_numbers
from tests.worst_order import ORDERS, added_up

FILE_BY_FILE = "file by file"

gc.disable()  # until all is imported, of which nothing will be thrown away


def pytest_addoption(parser: pytest.Parser) -> None:
    orders = [*ORDERS, FILE_BY_FILE]
    parser.addoption("--sums", choices=orders, help="the order in which float32 numbers are added up")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("any_order") and not metafunc.config.getoption("--sums"):
        metafunc.fixturenames.append("sums")
        metafunc.parametrize("sums", [None, *ORDERS], ids=["as it is", *ORDERS])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--sums"):
        others = {i for i in items if isinstance(i, pytest.Function) and not compares_numbers(i.function)}
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]
    sharing = {item.path for item in items if _shares_with_its_file(item)}
    # what a process without work takes over comes from the end: there nothing has to be made again for it
    items.sort(key=lambda item: item.path not in sharing)


def _shares_with_its_file(item: pytest.Item) -> bool:
    """Whether something is made once for all tests of a file: it would be made again by every process that has some."""
    info = getattr(item, "_fixtureinfo", None)
    definitions = [one for several in info.name2fixturedefs.values() for one in several] if info else []
    return any(one.scope == "module" for one in definitions)


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not go through it again and again."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    order = item.config.getoption("--sums") or parameters.get("sums")
    if order == FILE_BY_FILE:  # not test by test: what a file's fixtures have computed is compared to the bit
        order = list(ORDERS)[zlib.crc32(item.path.name.encode()) % len(ORDERS)]
    if order is None:
        return (yield)
    with added_up(order):
        return (yield)


@pytest.fixture(scope="session")
def fashion() -> Any:
    from vitscope.data import load_data

    return load_data("fashion", split="test")


@pytest.fixture
def small_vit() -> Any:
    """A vision transformer of two blocks for 32-pixel images."""
    import timm
    import torch

    torch.manual_seed(0)
    return timm.create_model(
        "vit_tiny_patch16_224",
        img_size=32,
        patch_size=4,
        embed_dim=48,
        depth=2,
        num_heads=3,
        num_classes=10,
        init_values=0.5,
    )
