"""The 2-norm of all gradients together, looked at in every step: for clipping, SAM, and to notice NaN and inf."""

import torch
from torch import Tensor, nn


def gradient_norm(model: nn.Module) -> Tensor:
    """The norm as it is now, not finite if any gradient has a number that is not."""
    norms = torch._foreach_norm([p.grad for p in model.parameters() if p.grad is not None])
    total = torch.linalg.vector_norm(torch.stack(list(norms)))
    return total.full_tensor() if hasattr(total, "full_tensor") else total
