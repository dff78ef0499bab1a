"""The numbers of a training: their types, how they lie in memory, and what happens when they are no longer finite.

Mixed precision is taken where the device is made for it: bfloat16, or float16 with a scaled loss. Convolutions and
batch normalisation are faster with channels last: on a CPU up to 1.3 times for whole steps; attention and linear maps
do not care. A loss that is no longer a number ends a training after `patience` such steps in a row. The 2-norm of all
gradients together is for clipping, SAM, messages, and to see NaN and inf in every step: reading them all takes as long
as a fiftieth of a small model's step.
"""

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vitscope.core.errors import VitscopeError
from vitscope.core.tensors import arrange, crashes_with_channels_last
from vitscope.data.broken_images import few
from vitscope.training.checkpoint import Progress
from vitscope.training.sharding import image_name

_NAMES_SHOWN = 8


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
        """Inside, the forward pass computes in the precision of the training."""
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


def lay_out(wish: str, model: nn.Module, device: torch.device, sharded: bool = False) -> torch.memory_format:
    """Arrange a model's weights as a recipe's `channels_last` wishes; returns the memory format for the images.

    What would crash with the channels last never has them last.
    """
    last = wish == "always" or (wish == "auto" and not sharded and device.type != "mps")
    last = last and not (device.type == "cpu" and crashes_with_channels_last(model))
    layout = torch.channels_last if last else torch.contiguous_format
    if not sharded:
        arrange(model, layout)
    return layout


class TrainingDiverged(VitscopeError):
    """Loss, gradient or weights are no longer finite."""


class Patience:
    """Counts steps that could not be taken, all of them in `skipped`."""

    def __init__(self, patience: int, data: Any) -> None:
        self.patience = patience
        self.data = data
        self.skipped = 0
        self._in_a_row = 0

    def watch(self, loss: float, norm: float, excused: bool, batch: list[int], progress: Progress) -> bool:
        """Whether a step of this loss and gradient norm can be taken; `TrainingDiverged` after too many that cannot.

        Where `excused`, a gradient that overflows is no sign of divergence, only a loss that does.
        """
        if math.isfinite(loss) and math.isfinite(norm):
            self._in_a_row = 0
            return True
        self.skipped += 1
        self._in_a_row += not (excused and math.isfinite(loss))
        if self._in_a_row < self.patience:
            return False
        names = [image_name(self.data, index) for index in batch]
        raise TrainingDiverged(
            f"the loss is {loss:g} in epoch {progress.epoch + 1}, step {progress.step + 1}, and its gradient's norm "
            f"{norm:g} (steps in a row that could not be taken: {self._in_a_row}); "
            f"the batch: {few(names, _NAMES_SHOWN)}"
        )


def gradient_norm(model: nn.Module) -> Tensor:
    """The norm as it is now, not finite if any gradient has a number that is not."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    total = torch.linalg.vector_norm(torch.stack(list(torch._foreach_norm(gradients))))
    return total.full_tensor() if isinstance(total, DTensor) else total


def are_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether all numbers are, of sharded tensors those of this process."""
    own = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors)
    return all(bool(tensor.detach().isfinite().all()) for tensor in own)
