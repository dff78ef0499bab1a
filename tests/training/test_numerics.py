"""Channels last where it helps, mixed precision where asked for, and numbers that are none noticed."""

import math
from pathlib import Path

import pytest
import timm
import torch
from torch import nn

from tests.processes import run
from vitscope.core.errors import VitscopeError
from vitscope.data import load_data
from vitscope.models import create_model
from vitscope.training.checkpoint import Progress
from vitscope.training.numerics import (
    Patience,
    Precision,
    TrainingDiverged,
    are_finite,
    gradient_norm,
    lay_out,
)

CPU = torch.device("cpu")
ONE_STEP = """
import torch
from torch import nn
from vitscope.training.numerics import lay_out

torch.set_num_threads(1)
model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 1, stride=2), nn.Flatten())
layout = lay_out("always", model, torch.device("cpu"))
for _ in range(3):
    model(torch.randn(16, 3, 32, 32).contiguous(memory_format=layout)).sum().backward()
print("learned")
"""


def is_last(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()


def test_a_wish_is_a_wish() -> None:
    for wish, sharded, expected in (
        ("never", False, torch.contiguous_format),
        ("always", False, torch.channels_last),
        ("auto", False, torch.channels_last),
        ("auto", True, torch.contiguous_format),
    ):
        model = create_model("resnet_mini")
        assert lay_out(wish, model, CPU, sharded) == expected
        assert is_last(model.layer1[0].conv1.weight) == (expected == torch.channels_last)


@pytest.mark.parametrize("wish", ["always", "auto"])
@pytest.mark.parametrize(
    ("convolution", "last"),
    [
        (nn.Conv2d(4, 8, 1, stride=2), False),
        (nn.Conv2d(4, 8, 1), True),
        (nn.Conv2d(4, 8, 3, stride=2), True),
        (nn.Conv2d(32, 8, 1, stride=2), True),
    ],
)
def test_what_would_crash_with_channels_last_does_not_get_them(
    wish: str, convolution: nn.Conv2d, last: bool
) -> None:
    model = nn.Sequential(nn.Conv2d(3, convolution.in_channels, 3), convolution)
    layout = lay_out(wish, model, CPU)
    assert (layout == torch.channels_last, is_last(model[0].weight)) == (last, last)


def test_a_strided_product_over_few_channels_learns(tmp_path: Path) -> None:
    (tmp_path / "one_step.py").write_text(ONE_STEP)
    done = run(tmp_path / "one_step.py")
    assert (done.returncode, done.stdout) == (0, "learned\n"), done.stderr


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


PLACE = Progress(epoch=2, step=6)


def test_steps_in_a_row_count() -> None:
    patience = Patience(2, range(9))
    assert not patience.watch(math.nan, 1.0, False, [0], PLACE)
    assert patience.watch(1.0, 1.0, False, [0], PLACE)
    assert not patience.watch(1.0, math.inf, False, [0], PLACE)
    with pytest.raises(TrainingDiverged):
        patience.watch(math.nan, math.nan, False, [0], PLACE)
    assert patience.skipped == 3


def test_too_large_a_scale_is_excused_and_a_loss_that_is_no_number_is_not() -> None:
    patience = Patience(1, range(9))
    for _ in range(5):
        assert not patience.watch(1.0, math.inf, True, [0], PLACE)
    with pytest.raises(TrainingDiverged):
        patience.watch(math.inf, math.inf, True, [0], PLACE)


def test_message_names_place_norm_and_images() -> None:
    data = load_data("fashion", split="train")
    with pytest.raises(TrainingDiverged) as caught:
        Patience(1, data).watch(math.nan, math.inf, False, list(range(20, 30)), PLACE)
    text = str(caught.value)
    assert "the loss is nan in epoch 3, step 7, and its gradient's norm inf" in text
    assert data.name(20) in text
    assert data.name(27) in text
    assert data.name(28) not in text
    assert text.endswith("and 2 more")
    assert "\n" not in text


def plain_norm(model: nn.Module) -> float:
    return sum(float(p.grad.double().square().sum()) for p in model.parameters() if p.grad is not None) ** 0.5


def test_it_is_the_norm_of_everything() -> None:
    torch.manual_seed(0)
    model = timm.create_model("resnet18", num_classes=10)
    model.layer1.requires_grad_(False)
    lay_out("auto", model, torch.device("cpu"))
    model(torch.randn(4, 3, 32, 32)).square().mean().backward()
    expected = plain_norm(model)
    assert abs(float(gradient_norm(model)) - expected) < 1e-5 * expected


def test_one_number_that_is_none_is_seen_wherever_it_is() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    model(torch.randn(5, 3)).sum().backward()
    for parameter in model.parameters():
        kept = parameter.grad.clone()
        parameter.grad.view(-1)[-1] = torch.inf
        assert not bool(gradient_norm(model).isfinite())
        parameter.grad.copy_(kept)
    assert bool(gradient_norm(model).isfinite())


def test_every_number_of_many_tensors_counts() -> None:
    tensors = [torch.full((3, 4), 3e38), torch.zeros(2, dtype=torch.long), torch.zeros(0)]
    assert are_finite(tensors)
    tensors[0][2, 3] = -math.inf
    assert not are_finite(tensors)
