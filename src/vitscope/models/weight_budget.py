"""No more is built than the weights beside a model's description fill: a line of a file may ask for any size."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.nn.parameter import is_lazy

from vitscope.core.errors import BadResult
from vitscope.models.checkpoints import read_weights
from vitscope.results.plain_files import check_plain

_TIMES = 4  # operations may have made the model smaller than it is built
_MORE_NUMBERS = 100_000_000
_MORE_TENSORS = 10_000


@contextmanager
def within_weights(path: Path, run: Path, described: Path) -> Iterator[None]:
    """Inside, models are refused that have far more numbers or tensors than the file of weights.

    Args:
        path: The file, in safetensors.
        run: The run folder it belongs to.
        described: The file that says how the model is built; the error names it.
    """
    tensors, numbers = _size_of(path, run)
    most_tensors, most_numbers = _TIMES * tensors + _MORE_TENSORS, _TIMES * numbers + _MORE_NUMBERS
    built = [0, 0]

    def count(module: nn.Module, name: str, tensor: Any) -> None:
        if not isinstance(tensor, Tensor) or is_lazy(tensor):
            return
        built[0] += 1
        built[1] += tensor.numel()
        if built[0] > most_tensors or built[1] > most_numbers:
            raise BadResult(
                f"{described} is damaged: it describes a model that is far larger than the {numbers} numbers in "
                f"{path.name}; train again, or copy the folder again"
            )

    hooks = [
        register_module_parameter_registration_hook(count),
        register_module_buffer_registration_hook(count),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _size_of(path: Path, run: Path) -> tuple[int, int]:
    """How many tensors a file holds, and numbers in them; only its header is read."""
    try:
        check_plain([path])  # of a pipe the header never comes
        with safe_open(path, framework="pt") as file:
            sizes = [math.prod(file.get_slice(name).get_shape()) for name in file.keys()]  # noqa: SIM118
    except (SafetensorError, OSError):
        sizes = [tensor.numel() for tensor in read_weights(path, run).values()]  # says what is wrong
    return len(sizes), sum(sizes)
