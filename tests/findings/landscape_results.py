"""Landscapes made up from a formula, for the tests of their figures."""

from typing import Any

import numpy as np

from vitscope.core.statistics import Estimate
from vitscope.findings.landscape import Centre, LandscapeResult, Mark
from vitscope.findings.landscape_line import LandscapeLineResult

COMMON: dict[str, Any] = {"model": "m", "data": "d", "n": 64, "seed": 0, "weight_decay": 0.05}
COMMON |= {"convention": "half_square", "decay_all": True, "augmentation": "hdv", "batch_norm": "kept"}
WAY = (
    Mark("init", 0.8, 0.5, 0.1, 0.0),
    Mark("epoch-001", 0.3, -0.2, 0.2, 1.0),
    Mark("last", 0.0, 0.0, 0.0, 2.0),
)


def around(value: np.ndarray) -> Estimate[np.ndarray]:
    return Estimate(value, value - 0.1, value + 0.1)


def bowl(**changes: Any) -> LandscapeResult:
    """NLL 1 + x² + 2 y²."""
    x = np.linspace(-1.0, 1.0, 11)
    nll = 1.0 + x**2 + 2.0 * x[:, None] ** 2
    unknown = np.full(2, np.nan)
    curves = {"nll": nll, "rise": nll - 1.0, "accuracy": np.exp(-nll)}
    fields: dict[str, Any] = {
        **COMMON,
        **{name: around(value) for name, value in curves.items()},
        "x": x,
        "y": x.copy(),
        "l2": np.full_like(nll, 5.0),
        "centre": Centre(Estimate(1.0, 0.9, 1.1), Estimate(0.4, 0.3, 0.5), 5.0),
        "directions": "random",
        "normalisation": "filter",
        "explained": unknown,
        "eigenvalues": unknown.copy(),
        "residuals": unknown.copy(),
        "marks": (),
        "moved": ("w",),
        "moved_numbers": 10,
        "parameters": 12,
    }
    return LandscapeResult(**{**fields, **changes})


def with_holes() -> LandscapeResult:
    nll = bowl().nll.value.copy()
    nll[0, 0], nll[0, 1], nll[5, 9] = np.inf, np.nan, np.inf
    return bowl(nll=around(nll))


def line() -> LandscapeLineResult:
    t = np.linspace(0.0, 1.0, 5)
    curves = {"nll": 2.0 - t, "excess": t * (1 - t), "accuracy": 0.5 + 0.2 * t}
    numbers = {name: around(value) for name, value in curves.items()}
    return LandscapeLineResult(**COMMON, **numbers, other="o", t=t, l2=np.ones(5), distance=3.0)
