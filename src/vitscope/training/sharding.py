"""Which images a step takes, and which of them this process.

A batch of n images is cut into the pairs (i, n - 1 - i) that timm's Mixup blends; whole pairs are dealt to the
processes, so a process can mix its share alone and the images are the same as in one process.
"""

from dataclasses import dataclass
from typing import Any

from torch.utils.data import Dataset

from vitscope.recipes.seeding import order


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
class Share:
    """One process's images of a batch.

    Attributes:
        images: In an order that Mixup pairs as it would in the whole batch.
        counted: False if there were not enough pairs for all: the images are another process's, and only keep
            this one in step.
    """

    images: list[int]
    counted: bool = True


def share(batch: list[int], rank: int, world: int) -> Share:
    """The share of process `rank` of `world`; of an odd batch, a process with a pair takes the last image too."""
    pairs = len(batch) // 2
    if pairs <= rank and (pairs > 0 or rank > 0):
        return Share(share(batch, 0, world).images, counted=False)
    even = 2 * pairs
    mine = range(rank, pairs, world)
    images = [batch[i] for i in mine] + [batch[even - 1 - i] for i in reversed(mine)]
    if rank == max(min(world, pairs) - 1, 0):
        images += batch[even:]
    return Share(images)


def parts(n: int, accumulate: int, world: int) -> int:
    """Into how many parts every process cuts its share of n images: `accumulate`, if two images are left for each."""
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
