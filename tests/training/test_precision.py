"""Mixed precision: off on a CPU unless asked for; the scaler's state survives."""

import pytest
import torch

from vitscope.core.errors import VitscopeError
from vitscope.training.precision import Precision

CPU = torch.device("cpu")


def test_automatic_is_off_on_a_cpu() -> None:
    automatic = Precision("auto", CPU)
    assert automatic.dtype is None
    assert automatic.scaler is None
    assert automatic.state() == {}
    with automatic.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_asked_for() -> None:
    with Precision("float16", CPU).autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float16
    with pytest.raises(
        VitscopeError, match="amp is 'bfloat16' and the device a CPU, expected 'auto' or 'never'"
    ):
        Precision("bfloat16", CPU)


def test_scaler_survives() -> None:
    used, fresh = Precision("float16", CPU), Precision("float16", CPU)
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.1)
    for value in (1.0, float("inf")):
        used.backward((weight * value).sum())
        assert used.scaler is not None
        used.scaler.step(optimizer)
        used.scaler.update()
        optimizer.zero_grad()
    assert float(weight.detach()) == pytest.approx(0.9)
    fresh.load_state(used.state())
    assert fresh.scaler is not None
    assert fresh.scaler.get_scale() == used.scaler.get_scale() == 2.0**15
    fresh.backward(weight.sum())
    assert float(weight.grad) == 2.0**15
