"""The maps of one layer, small enough to keep those of all layers: a byte per point.

A map m is kept as its least and its largest value and, of each point, the step

    s = round(255 m'),      m' = (m - min m) / (max m - min m)

so that m is known to 1/510 of its range, and s >= 128 exactly where m' >= 1/2.
"""

from dataclasses import dataclass

import numpy as np

from vitscope.engine.attention.key_maps import normalised
from vitscope.results.byte_array import ByteArray

STEPS = 255
THRESHOLD = 0.5  # of m': what is marked


@dataclass(frozen=True, eq=False)
class LayerMaps:
    """Attention of the heads of one layer in a few images."""

    query: str  # whose attention it is
    steps: ByteArray  # (images, heads, H, W)
    least: np.ndarray  # (images, heads)
    highest: np.ndarray  # (images, heads)

    @classmethod
    def of(cls, maps: np.ndarray, query: str) -> "LayerMaps":
        """The maps (images, heads, H, W) of a layer."""
        exact = maps.astype(np.float64)
        steps = np.rint(STEPS * normalised(exact)).astype(np.uint8)
        return cls(query, ByteArray.of(steps), exact.min((2, 3)), exact.max((2, 3)))

    @property
    def heads(self) -> int:
        """How many there are."""
        return self.steps.shape[1]

    @property
    def scaled(self) -> np.ndarray:
        """(images, heads, H, W): each map from its own least value, 0, to its own largest, 1."""
        return self.steps.array / STEPS

    @property
    def attention(self) -> np.ndarray:
        """(images, heads, H, W): the maps themselves; at most 1/510 of a map's range is lost."""
        low, high = self.least[:, :, None, None], self.highest[:, :, None, None]
        return np.asarray(low + self.scaled * (high - low))

    @property
    def area(self) -> np.ndarray:
        """(images, heads): the share of the map that is at least half way from its least to its largest value."""
        return np.asarray((self.scaled >= THRESHOLD).mean((2, 3)))
