"""Let a package be called like the function it is named after, as in `vs.anatomy(model)`."""

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def make_callable(module_name: str, function: Callable[..., Any]) -> None:
    """Make the module `module_name` callable; a call is a call of `function`."""

    class CallableModule(ModuleType):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    module = sys.modules[module_name]
    module.__class__ = CallableModule
    module.__signature__ = signature = inspect.signature(function)  # type: ignore[attr-defined]
    module.__doc__ = f"{function.__name__}{signature}\n\n{inspect.getdoc(function)}"
