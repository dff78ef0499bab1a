"""A pass gone on with from a removed unit gives what a whole pass without it gives, for less work."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tests.cases import ATTENTION_DESIGNS, HAND_MADE, NORM_FIRST, NORM_LAST, TORCHVISION, Case, timm_case
from vitscope.anatomy import Lesions, Tap, anatomy
from vitscope.core.errors import PathChanged
from vitscope.core.outputs import class_scores

CASES = [
    HAND_MADE,
    NORM_FIRST,  # a fused kernel takes the place of whole layers in a plain pass
    NORM_LAST,
    timm_case("resnet18", 32),  # adds in place
    timm_case("pit_ti_224", 32, img_size=32, patch_size=4),
    TORCHVISION[1],
    *(
        c
        for c in ATTENTION_DESIGNS
        if c.name.startswith(("shifted", "pooled keys", "talking", "hf:vit-eager"))
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@torch.no_grad()
def test_equals_a_whole_pass_without_the_unit(case: Case) -> None:
    model, images = case.model(), case.images(2)
    parts = anatomy(model, case.size)
    units = [unit for unit in parts if unit.removable][::3]
    lesions = Lesions(model, parts, units)
    torch.testing.assert_close(
        class_scores(model, lesions.intact(images)), class_scores(model, model(images))
    )
    for unit in units:
        with Tap(model, parts, [], remove=[unit]):
            expected = class_scores(model, model(images))
        torch.testing.assert_close(class_scores(model, lesions.without(unit.name)), expected)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@torch.no_grad()
def test_what_comes_before_the_unit_is_not_computed_again() -> None:
    case = timm_case("vit_tiny_patch16_224", 32, img_size=32, patch_size=8, depth=4)
    model, images = case.model(), case.images(2)
    parts = anatomy(model, case.size)
    lesions = Lesions(model, parts, [unit for unit in parts if unit.removable])
    with FlopCounterMode(display=False) as whole:
        lesions.intact(images)
    work = {}
    for unit in parts:
        if unit.removable:
            with FlopCounterMode(display=False) as counter:
                lesions.without(unit.name)
            work[unit.name] = counter.get_total_flops() / whole.get_total_flops()
    assert list(work.values()) == sorted(work.values(), reverse=True)
    assert work["blocks.0.attn"] > 0.85
    assert work["blocks.3.mlp"] < 0.01  # the head is left
    assert sum(work.values()) < 0.5 * len(work)


@torch.no_grad()
def test_every_batch_starts_anew() -> None:
    model = HAND_MADE.model()
    parts = anatomy(model, HAND_MADE.size)
    units = [unit for unit in parts if unit.removable]
    lesions = Lesions(model, parts, units)
    first, second = HAND_MADE.images(5).split((2, 3))
    lesions.intact(first)
    before = lesions.kept_bytes()
    lesions.intact(second)
    assert before < lesions.kept_bytes() < 2 * before
    fresh = Lesions(model, parts, units)
    fresh.intact(second)
    for unit in units:
        torch.testing.assert_close(lesions.without(unit.name), fresh.without(unit.name), rtol=0, atol=0)


def test_an_error_leaves_nothing_behind() -> None:
    model: nn.Module = HAND_MADE.model()
    parts = anatomy(model, HAND_MADE.size)
    lesions = Lesions(model, parts, [unit for unit in parts if unit.removable])
    with pytest.raises(PathChanged):
        lesions.intact(torch.randn(2, 4, 16, 24))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
