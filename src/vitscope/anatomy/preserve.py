"""Leave a model and the process as they were found."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def preserved(model: nn.Module, *, evaluation: bool = True) -> Iterator[None]:
    """Restore train/eval modes, requires_grad, gradients, random state and attention backends on leaving,
    also after an error.

    With `evaluation` the model is in evaluation mode inside: batch-norm statistics are not updated, dropout
    is off.
    """
    modes = [(module, module.training) for module in model.modules()]
    requires = [(p, p.requires_grad) for p in model.parameters()]
    gradients = [(p, p.grad) for p in model.parameters()]
    random = torch.get_rng_state()
    device_random = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    backends = _backends()
    try:
        if evaluation:
            model.eval()
        yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter, required in requires:
            parameter.requires_grad_(required)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        torch.set_rng_state(random)
        if device_random is not None:
            torch.cuda.set_rng_state_all(device_random)
        for name, enabled in backends.items():
            getattr(torch.backends.cuda, f"enable_{name}_sdp")(enabled)


def _backends() -> dict[str, bool]:
    names = ("flash", "mem_efficient", "math", "cudnn")
    return {name: getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in names}
