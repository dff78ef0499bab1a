"""The order of a model's weights and images in memory for passes over held images.

Convolutions are faster with channels last, or slower, depending on their sizes and on the machine: which order is taken
is found out by trying. Results differ by rounding only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch
from torch import nn

from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.core.tensors import arrange
from vitscope.engine.held_batch import HeldBatch
from vitscope.engine.pass_scores import Stopwatch

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


def faster_format(model: nn.Module, batch: HeldBatch) -> str:
    """The quicker memory format for passes over such a batch; the main process measures it for all."""
    found = "contiguous"
    if distributed.is_main() and sum(isinstance(module, nn.Conv2d) for module in model.modules()) > 1:
        least, watch = dict.fromkeys(FORMATS, float("inf")), Stopwatch(batch.images.device)
        for _ in range(_ROUNDS):
            for name, layout in FORMATS.items():
                with laid_out(model, name), torch.inference_mode():
                    arranged = batch.part(slice(_IMAGES)).arranged(layout)
                    with watch.from_zero():
                        arranged.outputs(model)
                    least[name] = min(least[name], watch.seconds)
        if least["channels_last"] < _GAIN * least["contiguous"]:
            found = "channels_last"
    return str(distributed.broadcast(found))


def check_format(memory_format: str) -> None:
    """Refuse a name that is none."""
    if memory_format not in get_args(MemoryFormat):
        raise VitscopeError(
            f"memory_format is '{memory_format}'; expected {', '.join(get_args(MemoryFormat))}"
        )
