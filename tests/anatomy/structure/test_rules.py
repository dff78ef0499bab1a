"""The rules, and how to add one."""

import pytest
import timm
import torch
from torch import nn

import vitscope as vs
from tests.registry import build_on_meta
from vitscope.anatomy import extra_rule
from vitscope.anatomy.structure.rules import _USER_RULES, Branch, kind_of
from vitscope.core.errors import VitscopeError


def branch(**changes) -> Branch:
    plain = dict(
        operations=(),
        classes=frozenset(),
        owner="x",
        attention=False,
        spatial_convolutions=0,
        depthwise_only=False,
        linear_maps=0,
        token_mixing=False,
        activation_products=0,
        residual=True,
        downsamples=False,
        follows_attention=False,
    )
    return Branch(**{**plain, **changes})


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        (dict(attention=True, spatial_convolutions=1, linear_maps=2), "msa"),
        (
            dict(spatial_convolutions=1, linear_maps=2, depthwise_only=True),
            "conv",
        ),  # ConvNeXt, inverted residual
        (
            dict(spatial_convolutions=1, linear_maps=2, depthwise_only=True, follows_attention=True),
            "mlp",
        ),  # PVTv2
        (dict(spatial_convolutions=1, linear_maps=2, follows_attention=True), "conv"),
        (dict(token_mixing=True, linear_maps=2), "mixer"),
        (dict(activation_products=2, spatial_convolutions=1), "mixer"),  # linear attention
        (dict(activation_products=1, spatial_convolutions=1), "conv"),  # a convolution with a pooled context
        (dict(linear_maps=2), "mlp"),
        (dict(linear_maps=1, residual=False), "other"),
        (dict(spatial_convolutions=1, residual=False, downsamples=True), "subsample"),
        (dict(spatial_convolutions=1, downsamples=True), "conv"),
        (dict(), "other"),
    ],
)
def test_order_of_rules(what, kind):
    assert kind_of(branch(**what)) == kind


class Shift(nn.Module):
    """A user's own block, which no built-in rule knows."""

    def forward(self, x):
        return torch.sigmoid(x) * x.flip(-1).mean(1, keepdim=True)


class WithShift(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.shift, self.head = nn.Conv2d(3, 4, 1), Shift(), nn.Conv2d(4, 2, 3)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.shift(x)
        return self.head(x).mean((2, 3))


def test_a_rule_of_ones_own_takes_three_lines():
    assert vs.anatomy(WithShift(), (3, 8, 8))["shift"].kind == "other"
    try:
        vs.add_rule("mixer", lambda branch: "Shift" in branch.classes)
        assert vs.anatomy(WithShift(), (3, 8, 8))["shift"].kind == "mixer"
    finally:
        _USER_RULES.clear()
    with extra_rule("conv", lambda branch: branch.owner == "shift"):
        assert vs.anatomy(WithShift(), (3, 8, 8))["shift"].kind == "conv"
    assert vs.anatomy(WithShift(), (3, 8, 8))["shift"].kind == "other"
    with pytest.raises(VitscopeError, match="no kind 'transformer'"):
        vs.add_rule("transformer", lambda branch: True)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("resmlp_12_224", {"mixer", "mlp"}),
        ("gmlp_s16_224", {"mixer"}),
        ("mobilenetv3_small_100", {"conv", "subsample", "other"}),
        ("halonet26t", {"conv", "msa"}),
        ("gcresnet33ts", {"conv", "other"}),  # softmax pooling to one vector is no attention
        (
            "efficientvit_b0",
            {"conv", "subsample", "mixer", "other"},
        ),  # linear attention forms no probabilities
    ],
)
def test_families(name, kinds):
    parts = vs.anatomy(build_on_meta(name))
    assert {unit.kind for unit in parts} - {"stem", "head"} <= kinds
    assert kinds - {"subsample", "other"} <= {unit.kind for unit in parts}


def test_depthwise_feed_forward_is_an_mlp_only_behind_attention():
    parts = vs.anatomy(timm.create_model("pvt_v2_b0").eval(), (3, 64, 64))
    assert {parts[u.name].kind for u in parts if u.name.endswith("mlp")} == {"mlp"}
