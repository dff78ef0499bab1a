"""Memory that one pass of a model gives back is kept for the next one, instead of being returned to the system.

On a CPU, torch takes every tensor from the C library, which by default gives large blocks back to the system as soon as
they are free. Each pass then gets its activations as fresh pages that the system has to clear first: several per
cent of the time of a training step, and up to a half of that of an exam. GPUs have an allocator of their own that
keeps its memory anyway.

The order in which the weights of a model's convolutions lie in memory.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4  # of mallopt
_LARGEST = 2**31 - 1
_KEEP = {_MMAP_MAX: 0, _TRIM_THRESHOLD: _LARGEST, _TOP_PAD: 64 << 20}
# What the C library comes to by itself in a program that frees large blocks; its first values cannot be asked for.
_USUAL = {_MMAP_MAX: 65536, _MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20, _TOP_PAD: 0}


_inside = 0  # how many times it is entered: the settings are the whole process's


@contextmanager
def kept_memory(device: torch.device) -> Iterator[None]:
    """Inside, this process keeps what it frees; at the end it is given back. Without glibc nothing happens."""
    global _inside
    library = _glibc() if device.type == "cpu" else None
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
    library = _glibc() if device.type == "cpu" else None
    if library is not None:
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
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
