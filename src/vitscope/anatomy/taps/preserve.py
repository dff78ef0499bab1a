"""Leave a model and the process as they were found."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn


@runtime_checkable
class Remembering(Protocol):
    """A module whose next call depends on its last."""

    def set_aside(self) -> Any:
        """Hand out what is remembered, and begin anew."""

    def put_back(self, memory: Any) -> None:
        """Remember that again."""


@contextmanager
def preserved(model: nn.Module, *, evaluation: bool = True) -> Iterator[None]:
    """Restore train/eval modes, requires_grad, gradients, random state, attention backends and what modules
    remember from call to call on leaving, also after an error.

    With `evaluation` the model is in evaluation mode inside: batch-norm statistics are not updated, dropout
    is off.
    """
    modes = [(module, module.training) for module in model.modules()]
    requires = [(p, p.requires_grad) for p in model.parameters()]
    gradients = [(p, p.grad) for p in model.parameters()]
    random = torch.get_rng_state()
    device_random = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    backends = _backends()
    remembered = [
        (module, module.set_aside()) for module in model.modules() if isinstance(module, Remembering)
    ]
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
        for module, memory in remembered:
            module.put_back(memory)
        torch.set_rng_state(random)
        if device_random is not None:
            torch.cuda.set_rng_state_all(device_random)
        for name, enabled in backends.items():
            getattr(torch.backends.cuda, f"enable_{name}_sdp")(enabled)


def _backends() -> dict[str, bool]:
    names = ("flash", "mem_efficient", "math", "cudnn")
    return {name: getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in names}
