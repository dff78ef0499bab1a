"""Where models come from: timm, torchvision, Hugging Face, a function, a run folder. Here what they share.

A constructor is called so that an argument it refuses becomes an error that says which ones there are. Of weights that
lie in the network it is said at once if there is none, not after minutes of trying.
"""

import inspect
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from torch import nn

from vitscope.core.errors import VitscopeError, alike
from vitscope.models.errors import BadWeights, UnknownArgument
from vitscope.models.origin import pair

_SURPLUS = re.compile(r"unexpected keyword argument(?:\(s\): \[| )'(\w+)'")  # Python's words, and timm's own
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True)
class ModelRequest:
    """What `create_model` was asked for."""

    name: str
    pretrained: bool | None
    num_classes: int | None
    img_size: int | tuple[int, int] | None
    arguments: dict[str, Any]
    trust_code: bool = False

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) of the images."""
        return pair(self.img_size)

    @property
    def weights(self) -> bool:
        """Whether a library that has weights is to load them."""
        return self.pretrained is not False

    @property
    def given(self) -> dict[str, Any]:
        """The arguments that a constructor has to take."""
        return self.arguments | ({} if self.num_classes is None else {"num_classes": self.num_classes})


def call(
    name: str,
    build: Callable[..., nn.Module],
    arguments: Mapping[str, Any],
    known: Callable[[], set[str]],
    optional: Mapping[str, Any] | None = None,
) -> nn.Module:
    """`build(**arguments)` with those of `optional` that it takes; `known()` names its arguments, for an error."""
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
    near = alike(argument, choices, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"it takes: {', '.join(choices) or 'none'}"
    return UnknownArgument(f"{name} takes no argument '{argument}'; {hint}", argument)


def arguments_of(model: nn.Module) -> set[str]:
    """The names of the arguments that the model's class and its bases take."""
    classes = type(model).__mro__[: type(model).__mro__.index(nn.Module)]
    return set().union(*(signature_of(cls.__init__) for cls in classes)) - {"self"}  # type: ignore[misc]


def signature_of(function: Callable[..., Any]) -> set[str]:
    """The names of the arguments that a function takes by name; '**' if it takes any."""
    names = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            names.add(parameter.name)
        elif parameter.kind == parameter.VAR_KEYWORD:
            names.add("**")
    return names


def is_cut_off() -> bool:
    """Whether the hub's name cannot even be looked up; behind a proxy that says nothing."""
    if any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES):
        return False
    from huggingface_hub import constants

    try:
        socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname or "", None)
    except OSError:
        return True
    return False


@contextmanager
def without_retries() -> Iterator[bool]:
    """Inside, where there is no network, only what is in the cache is looked for; gives whether that is so."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    cut_off = bool(before) or is_cut_off()
    constants.HF_HUB_OFFLINE = cut_off
    try:
        yield cut_off
    finally:
        constants.HF_HUB_OFFLINE = before


@contextmanager
def fetching(name: str, local: bool = False) -> Iterator[None]:
    """Inside, weights of a model are fetched; whatever goes wrong with that, but wrong arguments, is said in words.

    Those of a `local` model lie in this package, if it has any.
    """
    with nullcontext(False) if local else without_retries() as cut_off:
        try:
            yield
        except (TypeError, VitscopeError):
            raise
        except Exception as error:
            said = " ".join(f"{error}".split()) or type(error).__name__
            reason = "there is no network, and they are not in the cache" if cut_off else said
            if said.startswith("No pretrained weights exist"):  # timm says how to do without them, as we do
                reason = "it has none"
            raise BadWeights(
                f"no pretrained weights for {name}: {reason}; for random ones add --no-pretrained (pretrained=False), "
                "or see what has weights here: vitscope models"
            ) from error
