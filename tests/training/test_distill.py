"""Distillation: the loss by hand, what the teacher sees, and which students have a token for it."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from vitscope.core.errors import VitscopeError
from vitscope.data import DataConfig
from vitscope.models import create_model
from vitscope.recipes.named import get_recipe
from vitscope.training.distill import (
    Teacher,
    both_tokens,
    distillation_loss,
    find_teacher,
    has_distillation_token,
)

CPU = torch.device("cpu")
HARD = get_recipe("deit-distill")
SOFT = replace(HARD, distill="soft", distill_weight=0.1, temperature=3.0)
RGB = DataConfig(input_size=(3, 32, 32), mean=(0.5,) * 3, std=(0.25,) * 3, crop_pct=1.0)


def log_softmax(row: list[float]) -> list[float]:
    total = math.log(sum(math.exp(v) for v in row))
    return [v - total for v in row]


def by_hand(own: list[float], dist: list[float], y: list[float], taught: list[float], soft: bool) -> float:
    alone = -sum(p * q for p, q in zip(y, log_softmax(own), strict=True))
    if not soft:
        return 0.5 * alone - 0.5 * log_softmax(dist)[taught.index(max(taught))]
    t, s = (log_softmax([v / 3 for v in row]) for row in (taught, dist))
    divergence = sum(math.exp(a) * (a - b) for a, b in zip(t, s, strict=True))
    return 0.9 * alone + 0.1 * 9 * divergence


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("tokens", [1, 2])
def test_loss_by_hand(soft: bool, tokens: int) -> None:
    torch.manual_seed(0)
    own, dist, taught = torch.randn(3, 4, 5, dtype=torch.float64)
    y = torch.randn(4, 5, dtype=torch.float64).softmax(1)
    outputs = (own, dist if tokens == 2 else own)
    losses = distillation_loss(outputs, y, taught, SOFT if soft else HARD)
    rows = zip(
        own.tolist(), (dist if tokens == 2 else own).tolist(), y.tolist(), taught.tolist(), strict=True
    )
    expected = [by_hand(*row, soft) for row in rows]
    torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def test_gradient() -> None:
    torch.manual_seed(0)
    own, dist = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    y, taught = torch.randn(3, 4, dtype=torch.float64).softmax(1), torch.randn(3, 4, dtype=torch.float64)
    for recipe in (HARD, SOFT):
        assert torch.autograd.gradcheck(
            lambda a, b, r=recipe: distillation_loss((a, b), y, taught, r), (own, dist)
        )


def test_teacher_sees_its_own_normalisation_and_size() -> None:
    teacher = create_model("resnet_mini", num_classes=10).eval()
    own = Teacher(teacher, RGB, 10, CPU)
    pixels = torch.rand(2, 3, 32, 32)
    config = teacher.pretrained_cfg
    mean, std = (torch.tensor(config[k]).view(1, 3, 1, 1) for k in ("mean", "std"))
    with torch.no_grad():
        expected = teacher((pixels - mean) / std)
        torch.testing.assert_close(own((pixels - 0.5) / 0.25), expected, rtol=1e-4, atol=1e-5)
        flat = torch.full((1, 3, 48, 48), 0.7)
        at_32 = teacher((flat[..., :32, :32] - mean) / std)
        torch.testing.assert_close(own((flat - 0.5) / 0.25), at_32, rtol=1e-4, atol=1e-5)


def test_teacher_of_other_classes_or_channels_is_refused() -> None:
    with pytest.raises(VitscopeError, match="has 7 outputs for 10 classes"):
        Teacher(create_model("resnet_mini", num_classes=7), RGB, 10, CPU)
    grey = DataConfig(input_size=(1, 32, 32), mean=(0.5,), std=(0.25,), crop_pct=1.0)
    with pytest.raises(VitscopeError, match="takes 3 channels and the student 1"):
        Teacher(create_model("resnet_mini", num_classes=10), grey, 10, CPU)


def test_teacher_and_recipe_go_together() -> None:
    with pytest.raises(VitscopeError, match=r"distils \(hard\) and needs a teacher: --teacher"):
        find_teacher(HARD, None, RGB, 10, CPU)
    with pytest.raises(VitscopeError, match="does not distil; take --recipe deit-distill"):
        find_teacher(get_recipe("deit"), nn.Identity(), RGB, 10, CPU)
    assert find_teacher(get_recipe("deit"), None, RGB, 10, CPU) is None


def test_both_tokens_speak_inside_only() -> None:
    model = create_model("deit_tiny_distilled_patch16_224", num_classes=10, img_size=32, depth=1).train()
    images = torch.randn(2, 3, 32, 32)
    assert has_distillation_token(model)
    assert not has_distillation_token(create_model("vit_mini"))
    with both_tokens(model, True):
        own, dist = model(images)
    torch.testing.assert_close(model(images), (own + dist) / 2)
    with both_tokens(model, False):
        assert isinstance(model(images), torch.Tensor)
