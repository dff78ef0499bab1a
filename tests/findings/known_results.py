from typing import Any

import numpy as np
import pytest

from vitscope.core.statistics import Estimate
from vitscope.exams.features.fourier import half_diagonal, rings
from vitscope.exams.prediction.prediction import PredictionResult
from vitscope.findings.fourier import FourierResult
from vitscope.findings.variance import VarianceResult
from vitscope.results import UnitRow

UNITS = (
    UnitRow("stem", "stem", 0, 0.0, (8, 8, 8)),
    UnitRow("a.attn", "msa", 0, 0.2, (8, 8, 8)),
    UnitRow("a.mlp", "mlp", 0, 0.4, (8, 8, 8)),
    UnitRow("pool", "subsample", 1, 0.6, (16, 4, 4), downsamples=True),
    UnitRow("b.attn", "msa", 1, 0.8, (16, 4, 4)),
    UnitRow("b.conv", "conv", 2, 0.9, (32, 2, 2), downsamples=True),
)


KINDS: dict[str, Any] = {
    "kinds": ("msa", "mlp"),
    "kind_change": Estimate(np.array([-0.2, 0.4]), np.array([-0.25, 0.35]), np.array([-0.15, 0.45])),
}


@pytest.fixture
def variance_result() -> VarianceResult:
    value = np.array([1.0, 0.8, 1.2, 0.9, 0.7, 1.5])
    change = np.diff(value, prepend=np.nan)
    return VarianceResult(
        model="m",
        data="d",
        n=10,
        seed=0,
        units=UNITS,
        value=value,
        low=value - 0.1,
        high=value + 0.1,
        change=Estimate(change, change - 0.05, change + 0.05),
        **KINDS,
    )


@pytest.fixture
def fourier_result() -> FourierResult:
    shapes = [u.map_shape[1:] for u in UNITS if u.map_shape is not None]
    grids = [half_diagonal(*shape) for shape in shapes]
    radii = [np.append(0.0, rings(*shape)[0]) for shape in shapes]
    ring_frequency = np.concatenate(radii)
    rows = np.repeat(np.arange(6), [len(g) for g in grids])
    frequency = np.concatenate(grids)
    value = -frequency * (1 + rows)
    none = np.full(6, np.nan)
    return FourierResult(
        model="m",
        data="d",
        n=10,
        seed=0,
        units=UNITS,
        row_unit=rows,
        frequency=frequency,
        value=value,
        low=value - 0.1,
        high=value + 0.1,
        ring_unit=np.repeat(np.arange(6), [len(r) for r in radii]),
        ring_frequency=ring_frequency,
        ring=Estimate(-ring_frequency, -ring_frequency - 0.1, -ring_frequency + 0.1),
        change=Estimate(none, none.copy(), none.copy()),
        **KINDS,
    )


@pytest.fixture
def prediction_result() -> PredictionResult:
    count = np.array([0] * 10 + [5, 20, 30, 40, 105])
    confidence = np.where(count > 0, (np.arange(15) + 0.5) / 15, np.nan)
    accuracy = confidence - 0.1
    value = np.array([0.9, 0.99, 0.3, 0.15, 0.86, 0.04, -0.04, 0.05])
    by_class = np.array([[0.8, 0.9, 0.7], [1.0, 0.85, 0.9], [np.nan, 0.0, np.nan]])
    return PredictionResult(
        model="m",
        data="d",
        n=200,
        seed=0,
        value=value,
        low=value - 0.02,
        high=value + 0.02,
        bin_count=count,
        bin_confidence=confidence,
        bin_accuracy=Estimate(accuracy, accuracy - 0.05, np.minimum(accuracy + 0.05, 1.0)),
        temperature=1.0,
        drawn=np.tile(value, (5, 1)),
        histogram=np.repeat([[0, 0], [3, 1], [8, 2]], [40, 10, 10], axis=0)[:60],
        class_names=("cat", "dog", "owl"),
        class_count=np.array([100, 100, 0]),
        class_predicted=np.array([90, 105, 5]),
        by_class=Estimate(by_class, by_class - 0.05, np.minimum(by_class + 0.05, 1.0)),
        seen=np.array([-1, -1, -1, 255]),
        right=np.array([-1, -1, (1 << 52) - 1, 0]),
    )
