"""Call a constructor; an unexpected argument becomes an error that says which arguments there are."""

import difflib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from vitscope.models.errors import UnknownArgument

_SURPLUS = re.compile(r"unexpected keyword argument '(\w+)'")


def call(
    name: str,
    build: Callable[..., nn.Module],
    arguments: Mapping[str, Any],
    known: Callable[[], set[str]],
    optional: Mapping[str, Any] | None = None,
) -> nn.Module:
    """`build(**arguments)`, with an error that helps if one of them is refused.

    Args:
        name: The model's name, for the message.
        build: The constructor.
        arguments: What it must take.
        known: Called only for the message; the names of the arguments it takes.
        optional: What it may take; left out if it is refused.
    """
    wanted = dict(optional or {})
    while True:
        try:
            return build(**arguments, **wanted)
        except TypeError as error:
            found = _SURPLUS.search(str(error))
            refused = found[1] if found else ""
            if refused in wanted:
                del wanted[refused]
            elif refused in arguments:
                raise _unknown(name, refused, sorted(known())) from None
            else:
                raise


def _unknown(name: str, argument: str, choices: list[str]) -> UnknownArgument:
    near = difflib.get_close_matches(argument, choices, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"it takes: {', '.join(choices) or 'none'}"
    return UnknownArgument(f"{name} takes no argument '{argument}'; {hint}", argument)


def arguments_of(model: nn.Module) -> set[str]:
    """The names of the arguments that the model's class and its bases take."""
    names: set[str] = set()
    for cls in type(model).__mro__:
        if cls is nn.Module:
            break
        names |= signature_of(cls.__init__)  # type: ignore[misc]
    return names - {"self"}


def signature_of(function: Callable[..., Any]) -> set[str]:
    """The names of the arguments that a function takes by name; '**' if it takes any."""
    names = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            names.add(parameter.name)
        elif parameter.kind == parameter.VAR_KEYWORD:
            names.add("**")
    return names
