"""Scores at the size of a mask, in strips where the whole would not fit.

150 classes at 2000x3000 pixels are 3.6 GB. Up to `AT_ONCE` numbers are enlarged by one call, beyond that so many rows
at a time: bilinear, pixels have an area (`align_corners=False`), so row y of H lies at

    (y + 1/2) h / H - 1/2      of the h rows there are, cut off at the first and the last.

Both are the same up to the rounding of a float32 score; what fits is what one call gives, to the bit.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

AT_ONCE = 1 << 24  # scores: 64 MB
IN_DOUBLE = 1 << 22  # of them, turned into probabilities in one piece


def at_size(scores: Tensor, size: Sequence[int]) -> Tensor:
    """(N, K, h, w) at another height and width."""
    if tuple(scores.shape[2:]) == tuple(size):
        return scores
    return F.interpolate(scores, size=tuple(size), mode="bilinear", align_corners=False)


def strips(scores: Tensor, size: Sequence[int], at_once: int | None = None) -> Iterator[tuple[slice, Tensor]]:
    """Rows of (K, h, w) enlarged to `size`, top to bottom: which they are, and their scores (K, rows, W)."""
    height, width = size
    most = max(1, (at_once or AT_ONCE) // (len(scores) * width))
    if most >= height:
        yield slice(0, height), at_size(scores[None], size)[0]
        return
    for first in range(0, height, most):
        rows = slice(first, min(first + most, height))
        yield rows, _rows(scores, height, width, rows)


def _rows(scores: Tensor, height: int, width: int, rows: slice) -> Tensor:
    """Some rows of the enlarged scores: between the two rows that each lies between, at full width."""
    there = scores.shape[1]
    place = (torch.arange(rows.start, rows.stop, dtype=torch.float64) + 0.5) * there / height - 0.5
    place = place.clamp(0, there - 1)
    above = place.long()
    below = (above + 1).clamp(max=there - 1)
    share = (place - above).to(scores)[:, None]
    top, bottom = int(above[0]), int(below[-1]) + 1
    wide = at_size(scores[None, :, top:bottom], (bottom - top, width))[0]
    upper, lower = (wide[:, (one - top).to(scores.device)] for one in (above, below))
    return torch.lerp(upper, lower, share)
