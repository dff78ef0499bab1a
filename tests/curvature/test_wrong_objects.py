"""The functions of vs.curvature refuse what they cannot use, in words."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.fuzz.refusals import check_message
from vitscope import curvature
from vitscope.core.errors import VitscopeError

MODEL = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
IMAGES, LABELS = torch.randn(2, 3, 2, 2), torch.tensor([0, 2])
VECTOR = torch.randn(5)


def double(vector: Tensor) -> Tensor:
    return 2 * vector


CALLS: dict[Callable[..., Any], dict[str, Any]] = {
    curvature.top_eigenvalues: {"model": MODEL, "images": IMAGES, "targets": LABELS, "k": 1, "tol": 0.1},
    curvature.hessian_of: {"model": MODEL, "images": IMAGES, "targets": LABELS},
    curvature.lanczos: {"product": double, "start": VECTOR, "k": 1, "tol": 0.1, "max_products": 10},
    curvature.power: {"product": double, "like": VECTOR, "k": 1, "tol": 0.1, "iterations": 3},
    curvature.quadrature: {"product": double, "probe": VECTOR, "steps": 3},
    curvature.random_signs: {"size": 3, "like": VECTOR, "seed": 0},
    curvature.select_parameters: {"model": MODEL, "params": "1"},
    curvature.trace_estimates: {"product": double, "like": VECTOR, "probes": 2, "seed": 0},
    curvature.Penalty: {"weight_decay": 0.1, "convention": "norm", "decay_all": True},
}


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_wrong_objects_are_refused(function: Callable[..., Any]) -> None:
    right = CALLS[function]
    function(**right)
    for name in right:
        for wrong in (object(), [[]], -1, float("nan"), b"x"):
            with pytest.raises(VitscopeError) as refused:
                function(**{**right, name: wrong})
            check_message(str(refused.value), (function, name, wrong))
