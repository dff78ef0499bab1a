from types import SimpleNamespace

import numpy as np

from vitscope.findings.hessian import _hessian
from vitscope.findings.trajectory import _trajectory
from vitscope.results import tidy


def hessian(unconverged: int) -> SimpleNamespace:
    rows = tidy(["nep", "ape"], [0.25, 30.0], [0.2, 20.0], [0.3, 40.0], 32)
    return SimpleNamespace(
        summary=lambda: rows, nep=0.25, eigenvalues=np.zeros((8, 5)), batch_size=16, unconverged=unconverged
    )


def test_what_has_not_converged_is_said_aloud() -> None:
    text = _hessian(hessian(0))
    assert text.startswith(
        "25 % [20, 30] of the 40 largest eigenvalues, 5 per batch of 16 images, are negative"
    )
    assert text.endswith("is 30 [20, 40]. All have converged.")
    assert "3 have not converged" in _hessian(hessian(3))


def test_trajectory() -> None:
    found = SimpleNamespace(start="epoch-1", optimum="last", distance=2.5, detour=1.75)
    assert _trajectory(found) == (
        "From epoch-1 to last the weights moved by 2.5; the path was 1.75 times as long as the straight line."
    )
