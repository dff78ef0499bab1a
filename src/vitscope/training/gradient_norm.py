"""The 2-norm of all gradients together, looked at in every step: for clipping, SAM, and to notice NaN and inf."""

import torch
from torch import Tensor, nn

from vitscope.training.matrix_convolution import MatrixConv2d


class GradientNorm:
    """The norm of a model's gradients; reads each of them once, and not where it is known to be 0."""

    def __init__(self, model: nn.Module) -> None:
        self._convolutions = [m for m in model.modules() if isinstance(m, MatrixConv2d)]
        theirs = {m.weight for m in self._convolutions}
        self._parameters = [p for p in model.parameters() if p not in theirs]

    def __call__(self) -> Tensor:
        """The norm as it is now, not finite if any gradient has a number that is not."""
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        for convolution in self._convolutions:
            if convolution.weight.grad is not None:  # contiguous: torch is slow on parts of a tensor
                gradients.append(convolution.weight.grad[convolution.met].movedim(1, -1).contiguous())
        total = torch.linalg.vector_norm(torch.stack(list(torch._foreach_norm(gradients))))
        return total.full_tensor() if hasattr(total, "full_tensor") else total
