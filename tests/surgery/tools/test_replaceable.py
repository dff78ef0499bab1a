"""Conv blocks that MSA blocks can replace, and how many each stage gets."""

import pytest
import torch

import vitscope as vs
from tests.cases import timm_case
from vitscope.anatomy.structure.dissect import dissect
from vitscope.surgery import CannotOperate
from vitscope.surgery.tools.replaceable import (
    AppliedFunction,
    check_rules,
    closed_form,
    conv_stages,
    from_the_end,
)


@pytest.mark.parametrize(
    ("case", "blocks", "wanted"),
    [
        # a ResNet's stages begin with a block that changes the shape
        (timm_case("resnet18", 64), [2, 2, 2, 2], [["layer1.1"], ["layer2.1"], ["layer3.1"], ["layer4.1"]]),
        # a ConvNeXt's with a subsampling layer of its own, after which every block keeps the shape
        (
            timm_case("convnext_atto", 64, depths=(1, 2, 3, 1)),
            [1, 3, 4, 2],
            [[], ["stages.1.blocks.1"], ["stages.2.blocks.2", "stages.2.blocks.0"], ["stages.3.blocks.0"]],
        ),
        # its last stage ends in a block without a skip
        (
            timm_case("mobilenetv3_small_100", 64),
            [2, 5, 3],
            [["blocks.1.1"], ["blocks.3.1", "blocks.2.2"], ["blocks.4.2"]],
        ),
        # convolutions before attention stay
        (timm_case("maxvit_pico_rw_256", 64, img_size=64), [6, 6, 15, 6], [[], [], [], []]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_stages_and_the_blocks_that_can_be_replaced(case, blocks, wanted):
    stages = conv_stages(dissect(case.model(), case.size))
    assert [[block.path for block in stage.replaceable] for stage in stages] == wanted
    assert [stage.blocks for stage in stages] == blocks
    assert [stage.number for stage in stages] == list(range(1, len(stages) + 1))


@pytest.mark.parametrize(
    ("case", "channels", "width"),
    [
        (timm_case("resnet18", 64), 512, 512),
        (timm_case("resnetv2_50", 64), 2048, 512),
        (timm_case("resnext50_32x4d", 64), 2048, 1024),
        (timm_case("regnety_002", 64), 368, 368),
        (timm_case("convnext_atto", 64), 320, 320),
        (timm_case("efficientnet_b0", 64), 192, 192),  # its spatial convolutions are wider than the map
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_width_is_that_of_the_spatial_convolution(case, channels, width):
    block = conv_stages(dissect(case.model(), case.size))[-1].replaceable[0]
    assert (block.channels, block.width) == (channels, width)


def test_a_shared_block_is_left_alone():
    model = vs.create_model("preresnet_mini", blocks=(2, 2, 2, 3))
    model.stages[3].blocks[2] = model.stages[3].blocks[1]
    assert [len(stage.replaceable) for stage in conv_stages(dissect(model))] == [1, 1, 1, 0]


def test_an_applied_function_says_what_it_is():
    step = AppliedFunction(torch.nn.functional.leaky_relu, (0.3,), {})
    assert torch.equal(step(torch.tensor([-1.0, 2.0])), torch.tensor([-0.3, 2.0]))
    assert "leaky_relu" in repr(step)


@pytest.mark.parametrize(
    ("room", "budget", "counts"),
    [
        ((1, 2, 3, 2), 4, [1, 1, 1, 1]),  # the published algorithm: one per stage
        ((1, 2, 3, 2), 2, [0, 0, 1, 1]),  # the last stages first
        ((1, 2, 3, 2), 6, [1, 1, 2, 2]),  # what is left goes round again, the last stage first
        ((0, 0, 3, 2), 4, [0, 0, 2, 2]),  # stages without room are passed over
        ((1, 0, 1), 4, [1, 0, 1]),  # a budget is a maximum
        ((0, 0), 4, [0, 0]),
    ],
)
def test_closed_form(room, budget, counts):
    assert closed_form(room, budget) == counts


@pytest.mark.parametrize(
    ("room", "number", "counts"),
    [((1, 2, 3, 2), 1, [0, 0, 0, 1]), ((1, 2, 3, 2), 4, [0, 0, 2, 2]), ((1, 2, 3, 2), 8, [1, 2, 3, 2])],
)
def test_from_the_end(room, number, counts):
    assert from_the_end(room, number) == counts


def test_one_rule_at_a_time():
    check_rules(None, None, None)
    with pytest.raises(CannotOperate, match="budget and last are different rules"):
        check_rules(None, 4, 2)
