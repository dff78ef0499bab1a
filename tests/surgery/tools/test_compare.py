"""Before and after."""

import math

import torch
from torch import nn

import vitscope as vs
from vitscope.surgery.tools.graft import graft


class Add(nn.Module):
    def forward(self, x):
        return x + 0.5


def test_an_untouched_model_differs_in_nothing() -> None:
    model = vs.create_model("vit_mini")
    comparison = vs.surgery.Before(model).compare(model)
    assert comparison.parameters == (683_242, 683_242)
    assert comparison.flops[0] == comparison.flops[1] > 0
    assert comparison.largest_change == 0.0
    assert model.training


def test_what_changed_is_counted() -> None:
    model = vs.create_model("vit_mini")
    before = vs.surgery.Before(model)
    graft(model, "head", Add(), "add", "output")
    graft(model, "head", nn.Linear(10, 10), "more", "output")
    with torch.no_grad():
        model.get_submodule("head.more").weight.copy_(torch.eye(10))
        model.get_submodule("head.more").bias.zero_()
    comparison = before.compare(model)
    assert comparison.parameters[1] - comparison.parameters[0] == 110
    assert comparison.flops[1] - comparison.flops[0] == 200
    assert math.isclose(comparison.largest_change, 0.5, abs_tol=1e-6)
    table = comparison.table()
    assert table.loc["parameters", "change"] == 110
    assert table.loc["output", "change"] == comparison.largest_change
