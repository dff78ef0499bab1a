"""Results of the attention exams with known numbers."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from vitscope.core.statistics import Estimate
from vitscope.findings.attention import QUANTITIES, AttentionResult
from vitscope.findings.low_pass import QUANTITIES as LOW_PASS
from vitscope.findings.low_pass import LowPassResult
from vitscope.findings.softmax_gradient import SoftmaxGradientResult
from vitscope.results import UnitRow
from vitscope.results.table import HeadRows

UNITS = (UnitRow("a.attn", "msa", 0, 0.25), UnitRow("b.attn", "msa", 0, 0.75))
HEADS = np.array([-1, 0, 1, -1, 0, 1])


def rows(columns: int) -> dict[str, Any]:
    value = 0.9 - np.arange(6 * columns).reshape(6, columns) / (10 * columns)
    return {
        "model": "m",
        "data": "d",
        "n": 10,
        "seed": 0,
        "units": UNITS,
        "skipped": (),
        "row_unit": np.array([0, 0, 0, 1, 1, 1]),
        "head": HEADS.copy(),
        "value": value,
        "low": value - 0.05,
        "high": value + 0.05,
    }


def attention_result() -> AttentionResult:
    percentile = np.linspace(0.2, 0.4, 6)
    return AttentionResult(
        **rows(len(QUANTITIES)),
        percentile=Estimate(percentile, percentile - 0.02, percentile + 0.02),
        bound=np.array([2.0, 3.0]),
    )


def gradient_result() -> SoftmaxGradientResult:
    return SoftmaxGradientResult(**rows(2))


def low_pass_result() -> LowPassResult:
    return LowPassResult(**rows(len(LOW_PASS)))


def emptied(result: Any) -> Any:
    """The result of a model without attention."""
    assert isinstance(result, HeadRows)
    none: dict[str, Any] = {}
    for f in fields(result):
        own = getattr(result, f.name)
        if isinstance(own, np.ndarray | Estimate):
            none[f.name] = own[:0] if isinstance(own, np.ndarray) else own.at(slice(0))
    return replace(result, units=(), **none)
