"""Stochastic depth that belongs to the places of a batch, whoever computes them.

By itself every process, and every part of a batch that is accumulated, would draw its own. Here each layer draws for
the whole batch, from a seed that all of them know, and takes its images' share. So the losses do not depend on how a
batch is shared out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from timm.layers import DropPath
from torch import Tensor, nn

from vitscope.recipes.seeding import seed_of

_CALLS = 1000  # more than a layer is called in a pass


@dataclass
class _Placed:
    """Which images of how many a layer is about to see, and its seed for them."""

    seed: int
    places: Sequence[int]
    total: int
    calls: int = 0


class PlacedDropPath(DropPath):
    """timm's stochastic depth, drawn for a whole batch."""

    placed: _Placed | None

    def forward(self, x: Tensor) -> Tensor:
        """Whole images of `x` are 0, the others larger by as much as that takes away on average."""
        placed = self.placed
        if placed is None or not self.training or not self.drop_prob or len(x) != len(placed.places):
            return super().forward(x)
        generator = torch.Generator().manual_seed(placed.seed + placed.calls)
        placed.calls += 1
        share = 1.0 - self.drop_prob
        kept = torch.empty(placed.total).bernoulli_(share, generator=generator)[placed.places]
        if self.scale_by_keep and share > 0.0:
            kept /= share
        return x * kept.to(x).view(-1, *[1] * (x.dim() - 1))


class StochasticDepth:
    """All stochastic depth of a model; only timm's, and not where passes are computed twice to save memory."""

    def __init__(self, model: nn.Module) -> None:
        repeated = any(getattr(module, "grad_checkpointing", False) for module in model.modules())
        found = [] if repeated else [module for module in model.modules() if type(module) is DropPath]
        for layer in found:
            layer.__class__ = PlacedDropPath
        self._layers = cast(list[PlacedDropPath], found)
        for placed in self._layers:
            placed.placed = None

    def place(self, places: Sequence[int], total: int, *key: int) -> None:
        """Say which images of how many come next; `key` is where the training stands."""
        seed = seed_of(*key)
        for number, layer in enumerate(self._layers):
            layer.placed = _Placed(seed + number * _CALLS, places, total)

    def release(self) -> None:
        """Leave nothing of this in the model."""
        for layer in self._layers:
            del layer.placed
            layer.__class__ = DropPath  # type: ignore[assignment]
