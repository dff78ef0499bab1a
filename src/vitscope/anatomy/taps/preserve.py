"""Leave a model and the process as they were found."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeGuard

import torch
from torch import nn

from vitscope.core.errors import UnsupportedModel

_BACKENDS = ("flash", "mem_efficient", "math", "cudnn")


class Remembering(Protocol):
    """A module whose next call depends on its last."""

    def set_aside(self) -> Any:
        """Hand out what is remembered, and begin anew."""

    def put_back(self, memory: Any) -> None:
        """Remember again what `set_aside` handed out."""


def _remembers(module: object) -> TypeGuard[Remembering]:
    """By its class: to ask every module for a protocol takes longer than to run a small model."""
    return hasattr(type(module), "set_aside") and hasattr(type(module), "put_back")


def refuse_inference_weights(model: nn.Module, differentiated: bool = False) -> None:
    """Refuse weights made under `torch.inference_mode` where torch does not allow what is asked of them."""
    if torch.is_inference_mode_enabled() and not differentiated:
        return
    if any(parameter.is_inference() for parameter in model.parameters()):
        raise UnsupportedModel(
            f"{type(model).__name__} was made under torch.inference_mode, and torch does not let its weights be used "
            "outside, nor differentiated; make it outside (torch.no_grad does no harm)"
        )


@contextmanager
def preserved(model: nn.Module, *, evaluation: bool = True) -> Iterator[None]:
    """Restore train/eval modes, requires_grad, gradients, random state, attention backends and what modules
    remember from call to call on leaving, also after an error.

    With `evaluation` the model is in evaluation mode inside: batch-norm statistics are not updated, dropout is off.
    """
    refuse_inference_weights(model)
    modes = [(module, module.training) for module in model.modules()]
    parameters = [(p, p.requires_grad, p.grad) for p in model.parameters()]
    random = torch.get_rng_state()
    device_random = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    backends = {name: getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in _BACKENDS}
    remembered = [(m, m.set_aside()) for m in model.modules() if _remembers(m)]
    try:
        if evaluation:
            model.eval()
        yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter, required, gradient in parameters:
            parameter.requires_grad_(required)
            parameter.grad = gradient
        for keeper, memory in remembered:
            keeper.put_back(memory)
        torch.set_rng_state(random)
        if device_random is not None:
            torch.cuda.set_rng_state_all(device_random)
        for name, enabled in backends.items():
            getattr(torch.backends.cuda, f"enable_{name}_sdp")(enabled)
