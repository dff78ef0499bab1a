"""Accumulators that keep a few images to be shown.

Which ones depends on the seed and their places in the data alone: those with the lowest keys, which are hashes of the
two. So batches, interruptions and processes make no difference.
"""

from typing import Self

import torch
from torch import Tensor

from vitscope.core import distributed
from vitscope.engine.exam import Accumulator, Subject
from vitscope.engine.pixel_scores import order_of_showing
from vitscope.results import Result

FEW = 3  # images that are kept


class ShowsImages(Accumulator):
    """Keeps what `add_kept` declares of a few images, a row for each."""

    keys: Tensor  # (FEW,); 0: none yet
    places: Tensor  # (FEW,) in the data

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._kept: list[str] = []
        self.add_kept("keys")
        self.add_kept("places")

    def add_kept(self, name: str, shape: tuple[int, ...] = (), dtype: torch.dtype = torch.int64) -> None:
        """So many numbers of each image that is kept."""
        self.add_sum(name, (FEW, *shape), dtype)
        self._kept.append(name)

    def slot_for(self, index: int) -> int | None:
        """Where what is kept of the image at this place goes, all 0 so far; None if its key is not among the lowest."""
        key = order_of_showing(index, self.subject.seed)
        slot = int(self.keys.argmax()) if bool((self.keys > 0).all()) else int((self.keys == 0).nonzero()[0])
        if 0 < int(self.keys[slot]) <= key:
            return None
        for name in self._kept:
            getattr(self, name)[slot] = 0
        self.keys[slot], self.places[slot] = key, index
        return slot

    @property
    def slots(self) -> list[int]:
        """Of the images that are kept, in the order of their keys."""
        return [int(slot) for slot in self.keys.argsort() if int(self.keys[slot])]

    def merge_state(self, other: Self) -> None:
        """Take in another one's sums, and those of its images whose keys are lowest."""
        joined = {name: torch.cat([getattr(one, name) for one in (self, other)]) for name in self._kept}
        keys = joined["keys"]
        last = torch.where(keys > 0, keys, torch.full_like(keys, torch.iinfo(torch.int64).max))
        chosen = last.argsort()[:FEW]
        super().merge_state(other)
        for name, tensor in joined.items():
            setattr(self, name, tensor[chosen])

    def finish(self) -> Result:
        """The result; before sums are taken, each process holds its own images in the places that all agree on."""
        own = {name: getattr(self, name) for name in self._kept}
        everyone = sorted(key for keys in distributed.gather(self.keys.tolist()) for key in keys if key)
        for name, tensor in own.items():
            setattr(self, name, torch.zeros_like(tensor))
        for slot, key in enumerate(everyone[:FEW]):
            for place in (own["keys"] == key).nonzero()[:, 0].tolist():
                for name, tensor in own.items():
                    getattr(self, name)[slot] = tensor[place]
        try:
            return super().finish()
        finally:
            for name, tensor in own.items():
                setattr(self, name, tensor)
