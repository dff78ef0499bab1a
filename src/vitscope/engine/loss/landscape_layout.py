"""In which order in memory a model's maps are computed fastest, found out by trying.

Convolutions are faster with channels last, or slower, depending on their sizes and on the machine.
Results differ by rounding only.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.core.memory import arrange

MemoryFormat = Literal["auto", "contiguous", "channels_last"]
FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
_ROUNDS, _IMAGES = 3, 32
_GAIN = 0.95  # of the usual layout's time that another one may take to be preferred


@contextmanager
def laid_out(model: nn.Module, memory_format: str) -> Iterator[None]:
    """The model's weights in this order inside; outside they are the very tensors they were."""
    parameters = [(parameter, parameter.data) for parameter in model.parameters()]
    buffers = [
        (module, name, buffer)
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        if memory_format != "contiguous":
            arrange(model, FORMATS[memory_format])
        yield
    finally:
        for parameter, data in parameters:
            parameter.data = data
        for module, name, buffer in buffers:
            module._buffers[name] = buffer


def faster_format(model: nn.Module, images: Tensor) -> str:
    """The quicker memory format for passes over such images; the main process measures it for all."""
    found = "contiguous"
    if distributed.is_main() and sum(isinstance(module, nn.Conv2d) for module in model.modules()) > 1:
        least = dict.fromkeys(FORMATS, float("inf"))
        for _ in range(_ROUNDS):
            for name, layout in FORMATS.items():
                with laid_out(model, name), torch.inference_mode():
                    arranged = images[:_IMAGES].contiguous(memory_format=layout)
                    least[name] = min(least[name], _seconds(model, arranged))
        if least["channels_last"] < _GAIN * least["contiguous"]:
            found = "channels_last"
    return str(distributed.broadcast(found))


def check_format(memory_format: str) -> None:
    """Refuse a name that is none."""
    if memory_format not in get_args(MemoryFormat):
        raise VitscopeError(
            f"memory_format is '{memory_format}'; expected {', '.join(get_args(MemoryFormat))}"
        )


def _seconds(model: nn.Module, images: Tensor) -> float:
    on_cpu = images.device.type == "cpu"
    clock = time.process_time if on_cpu else time.perf_counter  # CPU time is not disturbed by other programs
    start = clock()
    model(images)
    if not on_cpu:
        torch.accelerator.synchronize()
    return clock() - start
