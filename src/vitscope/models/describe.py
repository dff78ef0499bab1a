"""What `vitscope models` prints about a model, found without giving it weights."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from vitscope.anatomy.flops import count_flops
from vitscope.core.errors import VitscopeError
from vitscope.models.create import create_model
from vitscope.models.zoo.registered import OURS


@dataclass(frozen=True)
class ModelInfo:
    """Name, size, cost and home of a model that can be created."""

    name: str
    parameters: int
    flops: int | None  # of one image, 2 per multiply-add; None if the pass needs weights to find its way
    input_size: tuple[int, int, int]
    source: str


def describe(name: str) -> ModelInfo:
    """Build the model on the meta device (no memory, no arithmetic) and count."""
    try:
        with torch.device("meta"), _NoInitialValues():
            model = create_model(name)
    except NotImplementedError:  # its constructor calculates with tensors, and meta ones hold no values
        model = create_model(name)
    channels, height, width = model.pretrained_cfg["input_size"]  # type: ignore[index]
    try:
        flops = count_flops(model, (channels, height, width))
    except VitscopeError:
        flops = None
    return ModelInfo(
        name=name,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        flops=flops,
        input_size=(channels, height, width),
        source=source_of(name),
    )


def source_of(name: str) -> str:
    """Who the model comes from."""
    if name in OURS:
        return "vitscope"
    return "torchvision" if name.startswith("tv:") else "timm"


class _NoInitialValues(TorchFunctionMode):
    """Leaves out what fills new weights: without memory it has no effect, and takes longer than all the rest."""

    _FILLING = frozenset("normal_ uniform_ trunc_normal_ clamp_ erfinv_ mul_ add_ fill_ zero_".split())

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__name__", "") in self._FILLING:
            tensor = args[0] if args else named["tensor"]  # torch.nn.init names its argument
            if tensor.is_meta:
                return tensor
        return func(*args, **named)
