"""Models that timm knows, which includes the ones registered by this package."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import timm
import torch
from timm.models import _helpers, _hub
from torch import nn

from vitscope.core.errors import VitscopeError, did_you_mean, warn
from vitscope.models.errors import TwinWarning, UnknownModel
from vitscope.models.origin import set_input
from vitscope.models.sources import ModelRequest, arguments_of, call, fetching, without_retries
from vitscope.models.zoo import OURS, fitting, timms_own

PREFIXES = ("hf-hub:", "hf_hub:", "local-dir:")  # timm's own prefixes, passed on to it


@contextmanager
def _no_pickle(name: str) -> Iterator[None]:
    """Inside, timm refuses weights of a stranger that only `torch.load` could read; safetensors it prefers itself."""

    def refuse(path: Any, *_: Any, **__: Any) -> Any:
        raise VitscopeError(
            f"'{name}' has its weights as a pickle ({Path(str(path)).name}), which is never read; expected "
            "model.safetensors: convert it, or build the model with --no-pretrained"
        )

    modules: tuple[Any, ...] = (_hub, _helpers) if name.startswith(PREFIXES) else ()
    own = [module._torch_load for module in modules]
    for module in modules:
        module._torch_load = refuse
    try:
        yield
    finally:
        for module, function in zip(modules, own, strict=True):
            module._torch_load = function


@contextmanager
def _described(name: str) -> Iterator[None]:
    """Inside, the description of a model of the hub, or of a folder, is read; that there is none is said in words."""
    if not name.startswith(PREFIXES):
        yield
        return
    with without_retries() as cut_off:
        try:
            yield
        except VitscopeError:
            raise
        except (OSError, ValueError) as error:  # what hubs and folders raise; wrong arguments raise others
            local = name.startswith("local-dir:")
            away = (
                "it is not in the cache, and there is no network" if cut_off else " ".join(f"{error}".split())
            )
            reason = "there is no config.json that timm reads" if local else away
            raise UnknownModel(
                f"no model '{name}': {reason}; expected hf-hub:owner/name, local-dir: and a folder of timm's, "
                "or a name of: vitscope models"
            ) from error


def check_name(name: str) -> None:
    """Refuse a tag of weights (`resnet50.a1_in1k`) that timm does not have."""
    architecture, dot, tag = name.partition(".")
    if not dot or name.startswith(PREFIXES):
        return
    tags = [known.partition(".")[2] for known in timm.list_models(f"{architecture}.*", include_tags=True)]
    if tag not in tags:
        known = did_you_mean(tag, tags) if tags else "it has none"
        raise UnknownModel(f"{architecture} has no weights '{tag}'; {known}")


def has(name: str) -> bool:
    """Whether timm can be asked for this name."""
    return name.startswith(PREFIXES) or timm.is_model(name)


def names() -> list[str]:
    """Every architecture that timm lists."""
    return timm.list_models()


def build(request: ModelRequest) -> nn.Module:
    """`timm.create_model`; `img_size` goes to the models that take one, and into every data configuration.

    A small image without weights to load gets the model's twin for small images, if there is one, and a note of it.
    """
    name, size = request.name, request.size
    check_name(name)
    built = name if request.weights else fitting(name, size)

    def known() -> set[str]:
        with torch.device("meta"):
            return arguments_of(timm.create_model(built)) - {"**"}

    def make(**kwargs: Any) -> nn.Module:
        if not request.weights:
            with _described(name):
                return timm.create_model(built, **kwargs)
        with fetching(name, local=name in OURS), _no_pickle(name):
            return timm.create_model(built, pretrained=True, **kwargs)

    model = call(name, make, request.given, known, {} if size is None else {"img_size": size})
    channels, height, width = model.pretrained_cfg["input_size"]  # type: ignore[index]
    set_input(
        model,
        input_size=(request.arguments.get("in_chans", channels), *(size or (height, width))),
        num_classes=getattr(model, "num_classes", request.num_classes),
    )
    if built != name and size is not None:
        warn(
            f"{name} at {max(size)} pixels is built as {built}, its twin for small images; timm's own, also with "
            f"random weights: {timms_own(name)}",
            TwinWarning,
        )
    return model
