"""Landscapes made up from a formula, for the tests of their figures."""

from typing import Any

import numpy as np

from vitscope.findings.landscape import LandscapeResult, Mark
from vitscope.findings.landscape_line import LandscapeLineResult

COMMON: dict[str, Any] = {"model": "m", "data": "d", "n": 64, "seed": 0, "weight_decay": 0.05}
COMMON |= {"convention": "half_square", "decay_all": True, "augmentation": "hdv", "batch_norm": "kept"}
WAY = (
    Mark("init", 0.8, 0.5, 0.1, 0.0),
    Mark("epoch-001", 0.3, -0.2, 0.2, 1.0),
    Mark("last", 0.0, 0.0, 0.0, 2.0),
)


def bowl(**changes: Any) -> LandscapeResult:
    """NLL 1 + x² + 2 y²."""
    x = np.linspace(-1.0, 1.0, 11)
    nll = 1.0 + x**2 + 2.0 * x[:, None] ** 2
    unknown = np.full(2, np.nan)
    numbers = {
        name: value + shift
        for quantity, value in (("nll", nll), ("rise", nll - 1.0), ("accuracy", np.exp(-nll)))
        for name, shift in ((quantity, 0.0), (f"{quantity}_low", -0.1), (f"{quantity}_high", 0.1))
    }
    fields: dict[str, Any] = {
        **COMMON,
        **numbers,
        "x": x,
        "y": x.copy(),
        "l2": np.full_like(nll, 5.0),
        "centre": {"nll": 1.0, "nll_low": 0.9, "nll_high": 1.1, "l2": 5.0}
        | {"accuracy": 0.4, "accuracy_low": 0.3, "accuracy_high": 0.5},
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
    nll = bowl().nll.copy()
    nll[0, 0], nll[0, 1], nll[5, 9] = np.inf, np.nan, np.inf
    return bowl(nll=nll)


def line() -> LandscapeLineResult:
    t = np.linspace(0.0, 1.0, 5)
    ends = (("", 0.0), ("_low", -0.1), ("_high", 0.1))
    curves = {"nll": 2.0 - t, "excess": t * (1 - t), "accuracy": 0.5 + 0.2 * t}
    numbers = {f"{name}{end}": value + shift for name, value in curves.items() for end, shift in ends}
    return LandscapeLineResult(**COMMON, **numbers, other="o", t=t, l2=np.ones(5), distance=3.0)
