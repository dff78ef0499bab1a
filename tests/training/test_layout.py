"""Channels last where it helps."""

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.processes import run
from vitscope.models import create_model
from vitscope.training.layout import lay_out

CPU = torch.device("cpu")
ONE_STEP = """
import torch
from torch import nn
from vitscope.training.layout import lay_out

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
