"""What a place of a landscape is summed up by: sums over images, from which means and intervals follow.

The rise at a place is the mean over images i of NLL_i there - NLL_i at a reference, so that its interval comes from
pairs and is much narrower than that of the NLL.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.core.statistics import mean_interval, share_interval
from vitscope.engine.own_passes import OwnNumbers

COLUMNS = 5  # NLL, NLL², rise, rise², right


def score(nll: Tensor, right: Tensor, reference: Tensor) -> Tensor:
    """(5,) sums over the images of one place."""
    rise = nll - reference
    return torch.stack([nll.sum(), nll.square().sum(), rise.sum(), rise.square().sum(), right.double().sum()])


class PointScores(OwnNumbers):
    """The sums of every place, of which each process fills in its own."""

    sums: Tensor

    def __init__(self, places: int) -> None:
        super().__init__()
        self.add_sum("sums", (places, COLUMNS))

    def update(self, place: int, sums: Tensor) -> None:
        """Take in what `score` gave at one place."""
        self.sums[place] = sums

    def compute(self) -> dict[str, Any]:
        """The places of all processes."""
        return {"sums": self.sums.numpy().copy()}


def summarise(sums: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """`nll`, `rise` and `accuracy` with `_low` and `_high`, each of the shape of `sums` without its last axis."""
    found: dict[str, np.ndarray] = {}
    with np.errstate(invalid="ignore", over="ignore"):  # places where the loss is not finite
        for name, total, squares in (("nll", 0, 1), ("rise", 2, 3), ("accuracy", 4, 4)):
            value, low, high = mean_interval(sums[..., total], sums[..., squares], n)
            if name == "accuracy":
                low, high = share_interval(sums[..., total], n)
            found |= {name: value, f"{name}_low": low, f"{name}_high": high}
    return found
