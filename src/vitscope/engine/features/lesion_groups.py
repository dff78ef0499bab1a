"""Units of a kind at the beginning, in the middle and at the end of their stages."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from vitscope.anatomy import Unit
from vitscope.findings.lesion import POSITIONS
from vitscope.results import UnitRow


def positions(units: Iterable[Unit]) -> dict[str, str]:
    """By name of each residual unit, in which third of those of its kind in its stage it stands.

    Units that cannot be removed count too: the first block of a stage is its first, whatever can be done to it.
    """
    stages: dict[tuple[int, str], list[str]] = defaultdict(list)
    for unit in units:
        if unit.residual:
            stages[unit.stage, unit.kind].append(unit.name)
    found = {}
    for names in stages.values():
        for place, name in enumerate(names):
            third = (2 * place + 1) * 3 // (2 * len(names))  # the middle of its step, in thirds of the stage
            found[name] = POSITIONS[third] if len(names) > 1 else "only"
    return found


def group_weights(units: Sequence[UnitRow], position: Sequence[str]) -> dict[tuple[str, str], np.ndarray]:
    """By (kind, position), what turns a number per unit into the mean over the group's units."""
    weights = {}
    for kind in dict.fromkeys(unit.kind for unit in units):
        of_kind = np.array([unit.kind == kind for unit in units])
        for place in ("", *POSITIONS):
            chosen = of_kind & (np.array([place in ("", p) for p in position]))
            if chosen.any():
                weights[kind, place] = chosen / chosen.sum()
    return weights


def contrasts(groups: Iterable[tuple[str, str]]) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """The pairs of groups that the papers compare: what hurts most at the beginning, and at the end, of a stage."""
    pairs = [
        (("mlp", "first"), ("msa", "first")),
        (("msa", "last"), ("mlp", "last")),
        (("conv", "first"), ("conv", "last")),
    ]
    there = set(groups)
    return [pair for pair in pairs if there.issuperset(pair)]
