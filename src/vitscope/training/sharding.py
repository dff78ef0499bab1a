"""How a batch is shared out: which images a step takes, which of them this process, and what stochastic depth drops.

A batch of n images is cut into the pairs (i, n - 1 - i) that timm's Mixup blends; whole pairs are dealt to the
processes, so a process can mix its share alone and the images are the same as in one process.

By itself every process, and every part of a batch that is accumulated, would draw its own stochastic depth. Here each
layer draws for the whole batch, from a seed that all of them know, and takes its images' share. So the losses do not
depend on how a batch is shared out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from timm.layers import DropPath
from torch import Tensor, nn
from torch.utils.data import Dataset

from vitscope.recipes.seeding import order, seed_of

_CALLS = 1000  # more than a layer is called in a pass


def batches(n: int, size: int, seed: int, epoch: int, repeats: int = 1) -> list[list[int]]:
    """The epoch's batches; one image left over is skipped, since batch normalisation cannot do with it.

    With repeats, the first n / repeats images of the order come `repeats` times each, side by side; the r-th time
    image i is numbered r * n + i, so that it is augmented differently.
    """
    images = order(n, seed, epoch)[: -(-n // repeats)]
    numbers = [r * n + image for image in images for r in range(repeats)][:n]
    chunks = [numbers[i : i + size] for i in range(0, n, size)]
    return chunks[:-1] if len(chunks) > 1 and len(chunks[-1]) == 1 else chunks


@dataclass(frozen=True)
class BatchShare:
    """One process's images of a batch; not `counted` if they are another's, and only keep this process in step."""

    images: list[int]  # in an order that Mixup pairs as it would in the whole batch
    counted: bool = True  # False if there were not enough pairs for all


def share(batch: list[int], rank: int, world: int) -> BatchShare:
    """The share of process `rank` of `world`; of an odd batch, a process with a pair takes the last image too."""
    pairs = len(batch) // 2
    if pairs <= rank and (pairs > 0 or rank > 0):
        return BatchShare(share(batch, 0, world).images, counted=False)
    even = 2 * pairs
    mine = range(rank, pairs, world)
    images = [batch[i] for i in mine] + [batch[even - 1 - i] for i in reversed(mine)]
    if rank == max(min(world, pairs) - 1, 0):
        images += batch[even:]
    return BatchShare(images)


def micro_batches(n: int, accumulate: int, world: int) -> int:
    """How many micro-batches every process makes of its share of n images: `accumulate`, if each has two images."""
    return max(1, min(accumulate, n // 2 // world))


class Repeated(Dataset[Any]):
    """A data set whose images come `repeats` times, under different numbers."""

    def __init__(self, data: Any, repeats: int) -> None:
        self.data = data
        self.repeats = repeats

    def __len__(self) -> int:
        return len(self.data) * self.repeats

    def __getitem__(self, index: int) -> Any:
        return self.data[index % len(self.data)]

    def name(self, index: int) -> str:
        """What to call image `index` in a message."""
        return image_name(self.data, index % len(self.data))


def image_name(data: Any, index: int) -> str:
    """What the data set calls image `index`, or its number."""
    return data.name(index) if callable(getattr(data, "name", None)) else f"image {index}"


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
        self._layers = cast(list[PlacedDropPath], found)
        for layer in self._layers:
            layer.__class__ = PlacedDropPath
            layer.placed = None

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
