"""A user's own models, as `package.module:factory`: a function or a class that returns an `nn.Module`."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from vitscope.core.errors import VitscopeError, alike
from vitscope.data.config import image_channels
from vitscope.models.errors import CannotBuild, UnknownModel
from vitscope.models.origin import set_input
from vitscope.models.sources import ModelRequest, call, signature_of
from vitscope.models.trust import OUR_FACTORIES


def build(request: ModelRequest) -> nn.Module:
    """Import the module (also from the working directory) and call the factory with what was asked for.

    `trust_code` goes to our own factories, which make what their arguments name.
    """
    name, size, given = request.name, request.size, request.given
    factory = find(name)
    try:
        takes = signature_of(factory)
    except (TypeError, ValueError) as error:  # of what is built into Python
        raise CannotBuild(
            f"{name} does not say what it takes; expected a function that returns a model"
        ) from error
    if request.pretrained or (request.pretrained is None and {"pretrained", "**"} & takes):
        given["pretrained"] = True
    if name in OUR_FACTORIES:
        given["trust_code"] = request.trust_code
    takes_size = size is not None and {"img_size", "**"} & takes
    wanted = {"img_size": request.img_size} if takes_size else {}
    try:
        model = call(name, factory, given, known=lambda: takes - {"**"}, optional=wanted)
    except VitscopeError:
        raise
    except Exception as error:
        raise CannotBuild(
            f"{name} fails with {error_text(error)}; expected a function that returns a model"
        ) from error
    if not isinstance(model, nn.Module):
        raise VitscopeError(f"{name} returned a {type(model).__name__}; expected a torch.nn.Module")
    config = getattr(model, "pretrained_cfg", None) or {}
    channels, *own = config.get("input_size", (image_channels(model), 224, 224))
    set_input(
        model,
        input_size=(request.arguments.get("in_chans", channels), *(size or own)),
        num_classes=request.num_classes or getattr(model, "num_classes", None),
    )
    return model


def find(name: str) -> Callable[..., Any]:
    """The function or class of that name; imports its module."""
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise UnknownModel(
            f"'{name}' is no model's name; expected package.module:factory, or: vitscope models"
        )
    try:
        with working_directory_importable():
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnknownModel(
            f"cannot import '{module_name}' of model '{name}' ({error}); "
            "expected package.module:factory, importable from here"
        ) from error
    except VitscopeError:
        raise
    except Exception as error:
        raise CannotBuild(
            f"'{module_name}' of model '{name}' cannot be imported: {error_text(error)}"
        ) from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        public = sorted(k for k, v in vars(module).items() if callable(v) and not k.startswith("_"))
        some = alike(attribute, public, 3) or public[:12]
        more = " ..." if len(some) < len(public) else ""
        raise UnknownModel(
            f"module '{module_name}' has no function '{attribute}'; it has: {', '.join(some) or 'none'}{more}"
        )
    return factory


@contextmanager
def working_directory_importable() -> Iterator[None]:
    """Inside, modules are found in the working directory, too: the command `vitscope` does not look there itself."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)


def error_text(error: Exception) -> str:
    """What code of the user's own ended with, in one line."""
    return " ".join(f"{type(error).__name__} ({error})".split())
