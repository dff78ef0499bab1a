"""Weights that lie in the network: where there is none, that is said at once, not after minutes of trying."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from urllib.parse import urlsplit

from vitscope.core.errors import VitscopeError
from vitscope.models.errors import BadWeights

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def is_cut_off() -> bool:
    """Whether the hub's name cannot even be looked up; behind a proxy that says nothing."""
    if any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES):
        return False
    from huggingface_hub import constants

    host = urlsplit(constants.ENDPOINT).hostname or ""
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return True
    return False


@contextmanager
def no_vain_tries() -> Iterator[bool]:
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
    with nullcontext(False) if local else no_vain_tries() as cut_off:
        try:
            yield
        except (TypeError, VitscopeError):
            raise
        except Exception as error:
            raise BadWeights(f"no pretrained weights for {name}: {why_not(error, cut_off)}") from error


def why_not(error: Exception, cut_off: bool) -> str:
    """Why weights could not be fetched, and what to do without them."""
    said = " ".join(f"{error}".split()) or type(error).__name__
    reason = "there is no network, and they are not in the cache" if cut_off else said
    if said.startswith("No pretrained weights exist"):  # timm says how to do without them, as we do
        reason = "it has none"
    return (
        f"{reason}; for random ones add --no-pretrained (pretrained=False), or see what has weights here: "
        "vitscope models"
    )
