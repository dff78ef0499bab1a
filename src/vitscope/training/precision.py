"""Mixed precision where the device is made for it: bfloat16, or float16 with a scaled loss."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from vitscope.core.errors import VitscopeError


class Precision:
    """The types of a training's arithmetic.

    Attributes:
        dtype: What matrix products and convolutions compute in; None for the parameters' own type.
        scaler: Keeps float16 gradients from vanishing; None for other types.
    """

    def __init__(self, amp: str, device: torch.device) -> None:
        self.device = device
        self.dtype = _find_dtype(amp, device)
        half = self.dtype == torch.float16
        self.scaler = torch.amp.GradScaler(device.type) if half else None

    def autocast(self) -> AbstractContextManager[Any]:
        """For the forward pass."""
        return torch.autocast(self.device.type, self.dtype) if self.dtype else nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of the loss, scaled if need be."""
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def state(self) -> dict[str, Tensor]:
        """What a scaler has learned; empty without one."""
        if self.scaler is None:
            return {}
        known = self.scaler.state_dict()
        return {
            "scale": torch.tensor(known["scale"], dtype=torch.float64),
            "growth": torch.tensor(known["_growth_tracker"], dtype=torch.int64),
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Put back what `state` gave."""
        if self.scaler is not None and state:
            own = self.scaler.state_dict()
            own.update(scale=float(state["scale"]), _growth_tracker=int(state["growth"]))
            self.scaler.load_state_dict(own)


def _find_dtype(amp: str, device: torch.device) -> torch.dtype | None:
    if amp == "never" or (amp == "auto" and device.type != "cuda"):
        return None
    if amp == "auto":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if fast else torch.float16
    if amp == "bfloat16" and device.type == "cpu":  # on some it is many times slower, on others it crashes
        raise VitscopeError(
            "recipe: amp is 'bfloat16' and the device a CPU, expected 'auto' or 'never' there"
        )
    return {"bfloat16": torch.bfloat16, "float16": torch.float16}[amp]
