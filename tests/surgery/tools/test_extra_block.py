import pytest
import timm
import torch

import vitscope as vs
from vitscope.anatomy.structure.dissect import dissect
from vitscope.surgery import CannotOperate
from vitscope.surgery.tools.extra_block import append_block, remove_block
from vitscope.surgery.tools.replaceable import conv_stages


def test_appends_a_fresh_copy_that_runs_and_can_be_removed():
    model = vs.create_model("preresnet_mini").eval()
    images = torch.randn(2, 3, 32, 32)
    before = model(images)
    convs = len(vs.anatomy(model).of_kind("conv"))
    path = append_block(model, conv_stages(dissect(model))[-1])
    assert path == "stages.3.blocks.2"
    old, new = model.stages[3].blocks[1:]
    assert [p.shape for p in new.parameters()] == [p.shape for p in old.parameters()]
    assert not torch.equal(old.conv1.weight, new.conv1.weight)
    assert len(vs.anatomy(model).of_kind("conv")) == convs + 1
    assert not torch.equal(model(images), before)
    remove_block(model, path)
    assert torch.equal(model(images), before)


def test_needs_an_ordered_container():
    model = timm.create_model("regnety_002")  # its stages are modules that run through their children
    with pytest.raises(CannotOperate, match="not the last one of an nn"):
        append_block(model, conv_stages(dissect(model, (3, 64, 64)))[-1])


def test_needs_a_block_that_keeps_its_shape():
    model = vs.create_model("preresnet_mini", blocks=(2, 2, 2, 1))
    with pytest.raises(CannotOperate, match="stage 4 has no block that keeps the shape"):
        append_block(model, conv_stages(dissect(model))[-1])
