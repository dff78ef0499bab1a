"""Models of a user's own for surveys, one of which does not work."""

import torch
from torch import Tensor, nn

from tests.models.factories import NeedsValues


class Breaks(NeedsValues):
    """Refuses what it is shown, but not before it is."""

    def forward(self, images: Tensor) -> Tensor:
        if not images.is_meta and torch.is_grad_enabled() in (True, False):
            raise RuntimeError("it was never finished")
        return super().forward(images)


def breaks() -> nn.Module:
    return Breaks()
