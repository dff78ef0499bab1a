"""Which tests compare numbers, so that other orders of adding up (`worst_order.py`) may make a difference to them.

Those whose own lines, or those of a function of `tests` that they call, hold a comparison up to a tolerance or to the
bit. What trains until something is learnt, or looks at names, shapes and messages, takes hours and shows nothing; what
compares with a thread or process of its own would compare two orders, because those add up as they always do.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

COMPARISON = re.compile(
    r"(?i)assert_close|allclose|approx|torch\.equal|array_equal|\batol|\brtol|tolerance|\de-\d"
)
ELSEWHERE = re.compile(r"processes=|subprocess\.|ThreadPoolExecutor")


def compares_numbers(test: Callable[..., Any]) -> bool:
    """Whether a test, or a function of `tests` that it leads to, compares numbers."""
    if ELSEWHERE.search(inspect.getsource(test)):
        return False
    seen: set[FunctionType] = set()
    waiting = [inspect.unwrap(test)]
    while waiting:
        function = waiting.pop()
        if not isinstance(function, FunctionType) or function in seen:
            continue
        if COMPARISON.search(inspect.getsource(function)):
            return True
        seen.add(function)
        waiting += _called(function)
    return False


def _called(function: FunctionType) -> Iterator[Any]:
    names = function.__code__.co_names
    for name in names:
        found = function.__globals__.get(name)
        inside = [getattr(found, n, None) for n in names] if isinstance(found, ModuleType) else [found]
        for one in inside:
            if isinstance(one, FunctionType) and one.__module__.startswith("tests."):
                yield one
