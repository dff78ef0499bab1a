"""Whether a device can be computed on, here and now."""

from typing import Any


def problem_with_device(name: Any) -> str | None:
    """What is wrong with a device's name, or None if it can be computed on."""
    import torch

    try:
        device = torch.device(name)
    except (RuntimeError, TypeError, ValueError):
        return "torch knows no such device"
    if device.type == "cpu":
        return None if device.index in (None, 0) else "there is one CPU only: cpu"
    if device.type == "meta":
        return "tensors on it have no values"
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            return "no CUDA device was found"
        return None if (device.index or 0) < count else f"there are {count}: cuda:0 to cuda:{count - 1}"
    try:
        torch.zeros(1, device=device).add_(1)
    except (RuntimeError, NotImplementedError, AssertionError, ImportError):
        return "it cannot be used on this machine"
    return None
