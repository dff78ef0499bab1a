"""What torch leaves to its users: memory that is kept, the order of weights, numbers that are not finite, random draws.

On a CPU, torch takes every tensor from the C library, which by default gives large blocks back to the system as soon as
they are free. Each pass then gets its activations as fresh pages that the system has to clear first: several per
cent of the time of a training step, and up to a half of that of an exam. `kept_memory` keeps them for the next. GPUs
have an allocator of their own that does so.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4  # of mallopt
_KEEP = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 64 << 20}
# What the C library comes to by itself in a program that frees large blocks; its first values cannot be asked for.
_USUAL = {_MMAP_MAX: 65536, _MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20, _TOP_PAD: 0}
_inside = 0  # how many times it is entered: the settings are the whole process's


@contextmanager
def kept_memory(device: torch.device) -> Iterator[None]:
    """Inside, this process keeps what it frees; at the end it is given back. Without glibc nothing happens."""
    global _inside
    library = _glibc(device)
    if library is None:
        yield
        return
    if _inside == 0:
        for option, value in _KEEP.items():
            library.mallopt(option, value)
    _inside += 1
    try:
        yield
    finally:
        _inside -= 1
        if _inside == 0:
            for option, value in _USUAL.items():
                library.mallopt(option, value)
            library.malloc_trim(0)


def give_back(device: torch.device) -> None:
    """Return to the system what is free now: after work that leaves much between the blocks that it keeps."""
    library = _glibc(device)
    if library is not None:
        library.malloc_trim(0)


def _glibc(device: torch.device) -> ctypes.CDLL | None:
    """The C library that this device's memory comes from, if it can be told what to keep."""
    if device.type != "cpu" or not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    known = all(hasattr(library, name) for name in ("gnu_get_libc_version", "mallopt", "malloc_trim"))
    return library if known else None


def arrange(model: nn.Module, layout: torch.memory_format) -> None:
    """Lay out all tensors of four sides; `Module.to` would stumble over those of 3-D convolutions, which have five."""
    model._apply(lambda tensor: tensor.contiguous(memory_format=layout) if tensor.dim() == 4 else tensor)


def crashes_with_channels_last(model: nn.Module) -> bool:
    """Whether a convolution of this model can end the process when it learns on a CPU with the channels last.

    PyTorch 2.15 writes beyond its memory in the backward pass of 1x1 convolutions with a stride over fewer channels
    than a vector of the CPU holds, in float32 on one thread: 2 to 7 channels where a vector holds 8; others hold 16.
    """
    return any(
        isinstance(module, nn.Conv2d)
        and module.kernel_size == (1, 1)
        and module.stride != (1, 1)
        and module.groups == 1
        and module.in_channels < 16
        for module in model.modules()
    )


def dtype_of(model: nn.Module) -> torch.dtype:
    """In which the model computes."""
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)


def checksum(numbers: Tensor) -> Tensor:
    """A single number that is finite only if all are; it may be infinite for numbers that are finite but huge."""
    few_digits = numbers.dtype in (torch.float16, torch.bfloat16)
    return numbers.sum(dtype=torch.float32 if few_digits else None)


def all_finite(numbers: Tensor) -> bool:
    """Whether none is NaN or infinite: in one reading, which is made exact only if there is a doubt."""
    return bool(checksum(numbers).isfinite()) or bool(numbers.isfinite().all())


def images_not_finite(numbers: Tensor) -> Tensor:
    """(N,) bool: the entries along the first axis that hold a number that is not finite."""
    return ~numbers.isfinite().reshape(len(numbers), -1).all(1)


def weights_not_finite(model: nn.Module) -> dict[str, int]:
    """How many numbers are not finite, by the name of the parameter or running statistic; without those that have none.

    Other buffers are no weights: a mask may well hold minus infinity.
    """
    statistics = {n: b for n, b in model.named_buffers() if n.endswith(("running_mean", "running_var"))}
    own = {**dict(model.named_parameters()), **statistics}
    floating = {name: tensor.detach() for name, tensor in own.items() if tensor.is_floating_point()}
    return {name: int((~t.isfinite()).sum()) for name, t in floating.items() if not all_finite(t)}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside; its random state is as before afterwards."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
