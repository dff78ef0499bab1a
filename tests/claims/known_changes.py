"""Results whose changes across units are known."""

from collections.abc import Sequence

import numpy as np

from vitscope.core.statistics import Estimate
from vitscope.findings.fourier import FourierResult
from vitscope.findings.variance import VarianceResult
from vitscope.results import UnitRow


def variance_result(
    changes: Sequence[tuple[str, float, float]], half: float, stages: Sequence[int] | None = None
) -> VarianceResult:
    """A variance whose units have these (kind, depth, change); all numbers are known to plus or minus `half`."""
    units = [UnitRow("stem", "stem", 0, 0.0, (8, 8, 8))]
    units += [
        UnitRow(f"unit{i}", kind, stages[i] if stages else 0, depth, (8, 8, 8))
        for i, (kind, depth, _) in enumerate(changes)
    ]
    change = np.array([np.nan, *(size for _, _, size in changes)])
    value = 100 + np.nancumsum(change)
    kinds = tuple(dict.fromkeys(kind for kind, _, _ in changes))
    means = np.array([np.mean([size for kind, _, size in changes if kind == k]) for k in kinds])
    return VarianceResult(
        model="m",
        data="d",
        n=50,
        seed=0,
        units=tuple(units),
        value=value,
        low=value - half,
        high=value + half,
        change=Estimate(change, change - half, change + half),
        kinds=kinds,
        kind_change=Estimate(means, means - half, means + half),
    )


def fourier_result(changes: Sequence[tuple[str, float, float]], half: float) -> FourierResult:
    """The same changes, of the amplitude at a single frequency."""
    same = variance_result(changes, half)
    names = ("change", "kind_change", "value", "low", "high")
    none = np.empty(0)
    return FourierResult(
        **{name: getattr(same, name) for name in ("model", "data", "n", "seed", "units", "kinds", *names)},
        ring_unit=none,
        ring_frequency=none,
        ring=Estimate(none, none, none),
        row_unit=np.arange(len(same.units)),
        frequency=np.ones(len(same.units)),
    )
