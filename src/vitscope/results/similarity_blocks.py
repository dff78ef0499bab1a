"""Block structure of a similarity matrix: are units of one stage more alike than units of different stages?

With S the similarity of units i and j, over all pairs i < j,

    block structure = mean of S inside a stage - mean of S between stages
    block contrast  = sum_d m_d (the same difference among pairs at distance d) / sum_d m_d

where the distance of a pair is d = j - i and m_d is the smaller of the two numbers of pairs at distance d. Units of
one stage are also close to each other, so that similarity which only decays with distance has a block structure
in the first sense; the second one compares pairs at equal distance and does not see it. Both are linear in S.
"""

from collections.abc import Sequence

import numpy as np

from vitscope.results import UnitRow

SCORES = ("block_structure", "block_contrast")
PARTS = 4  # that a model of one stage is cut into, for comparison with models of several


def stages_of(units: Sequence[UnitRow]) -> np.ndarray:
    """The stage of each unit; the quarters of a model that has one stage only, in the place of stages."""
    stages = np.array([unit.stage for unit in units], dtype=np.int64)
    if len(set(stages.tolist())) > 1:
        return stages
    return np.arange(len(units), dtype=np.int64) * PARTS // max(len(units), 1)


def score_weights(stages: np.ndarray) -> np.ndarray:
    """(2, units, units): what to multiply a similarity matrix with, and sum, to get `SCORES`.

    NaN where a score does not exist because there are no pairs to compare.
    """
    n = len(stages)
    distance = np.arange(n)[None, :] - np.arange(n)[:, None]
    same = stages[:, None] == stages[None, :]
    structure = _difference(same & (distance > 0), ~same & (distance > 0))
    contrast, total = np.zeros((n, n)), 0
    for d in range(1, n):
        inside, between = same & (distance == d), ~same & (distance == d)
        if (weight := min(int(inside.sum()), int(between.sum()))) > 0:
            contrast += weight * _difference(inside, between)
            total += weight
    return np.stack([structure, contrast / total if total else np.full((n, n), np.nan)])


def _difference(inside: np.ndarray, between: np.ndarray) -> np.ndarray:
    if not inside.any() or not between.any():
        return np.full(inside.shape, np.nan)
    return inside / inside.sum() - between / between.sum()
