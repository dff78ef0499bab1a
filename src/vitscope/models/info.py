"""What `vitscope models` prints about a model, found without giving it values.

It is built on the meta device, where weights take no memory and nothing is computed.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from vitscope.anatomy.flops import count_flops
from vitscope.core.errors import VitscopeError
from vitscope.data.config import data_config
from vitscope.models.create import create_model
from vitscope.models.sources import dense as from_dense
from vitscope.models.sources import torchvision as from_torchvision
from vitscope.models.sources import vqa as from_vqa
from vitscope.models.zoo import OURS

_LOADED_IN_VAIN = r"for .*: copying from a non-meta parameter in the checkpoint to a meta parameter"


@dataclass(frozen=True)
class ModelInfo:
    """Name, size, cost and home of a model that can be created."""

    name: str
    parameters: int
    flops: int | None  # of one image, 2 per multiply-add; None if the pass needs weights to find its way
    input_size: tuple[int, int, int]
    source: str


def describe(name: str, **arguments: Any) -> ModelInfo:
    """Build the model on the meta device (no memory, no arithmetic) and count; `arguments` as for `create_model`."""
    try:
        with torch.device("cpu") if needs_values(name) else without_values(), _NoInitialValues():
            model = create_model(name, **arguments)
    except NotImplementedError:  # its constructor calculates with tensors, and meta ones hold no values
        model = create_model(name, **arguments)
    size = data_config(model).input_size  # that its images are brought to, whatever `pretrained_cfg` says
    try:
        flops = count_flops(model, size)
    except VitscopeError:
        flops = None
    parameters = sum(parameter.numel() for parameter in model.parameters())
    other = "torchvision" if name.startswith(from_torchvision.PREFIX) else "timm"
    source = "vitscope" if name in OURS or from_dense.has(name) or from_vqa.has(name) else other
    return ModelInfo(name, parameters, flops, size, source)


def needs_values(name: str) -> bool:
    """Whether a model of this name is built with weights only: it is watched while it is built, or reads them."""
    return from_dense.has(name) or from_vqa.has(name)


@contextmanager
def without_values() -> Iterator[None]:
    """Inside, models are built on the meta device; that weights which a factory loads have no effect is not said."""
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.filterwarnings("ignore", _LOADED_IN_VAIN, UserWarning)
        yield


class _NoInitialValues(TorchFunctionMode):
    """Leaves out what fills new weights: without memory it has no effect, and takes longer than all the rest."""

    _FILLING = frozenset("normal_ uniform_ trunc_normal_ clamp_ erfinv_ mul_ add_ fill_ zero_".split())

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__name__", "") in self._FILLING:
            tensor = args[0] if args else named["tensor"]  # torch.nn.init names its argument
            if tensor.is_meta:
                return tensor
        return func(*args, **named)
