"""When a loss that is no longer a number ends a training: after `patience` such steps in a row.

The 2-norm of all gradients together, for clipping, SAM and messages; and a quick look for NaN and inf in every step.

Reading all gradients takes as long as a fiftieth of a small model's step. Most of them are products of two matrices:
entry (o, i) of the gradient of a linear layer or a convolution is a sum of products of what came back to output o and
what had gone into input i. If one of these is NaN or inf then so is the whole row o or the whole column i. So one row
and one column tell for all.

Two things can escape: finite numbers whose product overflows, and what comes back through a module that uses a part of
another layer's weight. They show in the next losses, and `are_finite` finds them before anything is written.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vitscope.core.errors import VitscopeError
from vitscope.training.checkpoint import Progress
from vitscope.training.matrix_convolution import MatrixConv2d
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

    def watch(
        self, loss: float, norm: float | None, excused: bool, batch: list[int], progress: Progress
    ) -> bool:
        """Whether a step can be taken; raises `TrainingDiverged` if too many could not.

        Args:
            loss: Of the effective batch.
            norm: Of its gradient; None if that is known to be finite.
            excused: A gradient that overflows is no sign of divergence here, only a loss that does.
            batch: Its images.
            progress: Where this step stands.
        """
        if math.isfinite(loss) and (norm is None or math.isfinite(norm)):
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


_PRODUCTS = {kind.forward for kind in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, MatrixConv2d)}
_SMALL = 1 << 14


def gradient_norm(model: nn.Module) -> Tensor:
    """The norm as it is now, not finite if any gradient has a number that is not."""
    return _norm([p.grad for p in model.parameters() if p.grad is not None])


def are_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether all numbers are, of sharded tensors those of this process."""
    own = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors)
    return all(bool(tensor.detach().isfinite().all()) for tensor in own)


class FiniteGradients:
    """Tells whether the gradients of a model are finite, from a row and a column of each large product of matrices."""

    def __init__(self, model: nn.Module) -> None:
        products: set[nn.Parameter] = set()
        others: set[nn.Parameter] = set()
        for module in model.modules():
            is_product = type(module).forward in _PRODUCTS and getattr(module, "groups", 1) == 1
            for parameter in module.parameters(recurse=False):
                cut = (
                    parameter.dim() > 1 and parameter.numel() > _SMALL and not isinstance(parameter, DTensor)
                )
                (products if is_product and cut else others).add(parameter)
        self._products = list(products - others)
        self._others = list(others)

    def __call__(self) -> bool:
        """Whether they are now."""
        read = [p.grad for p in self._others if p.grad is not None]
        for parameter in self._products:
            if (gradient := parameter.grad) is not None:
                read += (gradient[0], gradient[:, 0])
        return bool(_norm(read).isfinite()) if read else True


def _norm(tensors: list[Tensor]) -> Tensor:
    total = torch.linalg.vector_norm(torch.stack(list(torch._foreach_norm(tensors))))
    return total.full_tensor() if isinstance(total, DTensor) else total
