"""A model is brought back whole: classes, children, weights, attributes, hooks."""

import timm
import torch
from torch import nn

from tests.surgery.checks import assert_equal, outputs
from vitscope.surgery.tools.compare import Snapshot
from vitscope.surgery.tools.graft import graft

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def test_everything_that_an_operation_can_do_is_taken_back() -> None:
    torch.manual_seed(0)
    model = timm.create_model("resnet18", num_classes=4).eval()
    handle = model.fc.register_forward_pre_hook(lambda module, args: None)
    said, keys = outputs(model, IMAGES), list(model.state_dict())
    weights = {name: id(parameter) for name, parameter in model.named_parameters()}
    classes = [type(module) for module in model.modules()]
    before = Snapshot(model)
    assert model.layer1 in before
    graft(model, "layer2", nn.Sigmoid(), "sigmoid", "input")
    graft(model, "", nn.Sigmoid(), "sigmoid", "output")
    model.set_submodule("layer1.0", nn.Identity())
    model.layer4.append(nn.ReLU())
    model.fc.weight = nn.Parameter(torch.zeros(4, 512))
    model.note = "something"
    model.pretrained_cfg["note"] = "something"
    model.fc.register_forward_hook(lambda module, args, output: output + 1)
    assert nn.Identity() not in before
    before.restore()
    assert [type(module) for module in model.modules()] == classes
    assert {name: id(parameter) for name, parameter in model.named_parameters()} == weights
    assert list(model.state_dict()) == keys
    assert not hasattr(model, "note")
    assert "note" not in model.pretrained_cfg
    assert_equal(outputs(model, IMAGES), said)
    handle.remove()
    assert not model.fc._forward_pre_hooks
    assert not model.fc._forward_hooks
