"""When a loss that is no longer a number ends a training: after `patience` such steps in a row.

The 2-norm of all gradients together, for clipping, SAM, messages, and to see NaN and inf in every step: reading them
all takes as long as a fiftieth of a small model's step.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vitscope.core.errors import VitscopeError
from vitscope.training.checkpoint import Progress
from vitscope.training.sharding import image_name

_NAMES_SHOWN = 8


class TrainingDiverged(VitscopeError):
    """Loss, gradient or weights are no longer finite."""


class Patience:
    """Counts steps that could not be taken.

    Attributes:
        skipped: All of them.
    """

    def __init__(self, patience: int, data: Any) -> None:
        self.patience = patience
        self.data = data
        self.skipped = 0
        self._in_a_row = 0

    def watch(self, loss: float, norm: float, excused: bool, batch: list[int], progress: Progress) -> bool:
        """Whether a step can be taken; raises `TrainingDiverged` if too many could not.

        Args:
            loss: Of the effective batch.
            norm: Of its gradient.
            excused: A gradient that overflows is no sign of divergence here, only a loss that does.
            batch: Its images.
            progress: Where this step stands.
        """
        if math.isfinite(loss) and math.isfinite(norm):
            self._in_a_row = 0
            return True
        self.skipped += 1
        self._in_a_row += not (excused and math.isfinite(loss))
        if self._in_a_row < self.patience:
            return False
        names = [image_name(self.data, index) for index in batch]
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        raise TrainingDiverged(
            f"the loss is {loss:g} in epoch {progress.epoch + 1}, step {progress.step + 1}, and its gradient's norm "
            f"{norm:g} (steps in a row that could not be taken: {self._in_a_row}); "
            f"the batch: {', '.join(names[:_NAMES_SHOWN])}{more}"
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
