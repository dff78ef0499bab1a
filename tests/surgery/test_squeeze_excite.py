"""Squeeze-and-excitation."""

import pytest
import torch

import vitscope as vs
from tests.surgery.checks import assert_equal, check_operated, outputs, short
from vitscope.surgery import NoEffectWarning
from vitscope.surgery.squeeze_excite import SqueezeExcitation
from vitscope.surgery.tools.image_tokens import ImageTokens

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("layout", ["NLC", "NCHW", "windows"])
def test_formula(layout: str) -> None:
    torch.manual_seed(0)
    tokens = {"NLC": ImageTokens(3, 2), "NCHW": ImageTokens(4, 1), "windows": ImageTokens(3, 2, 0, 3)}[layout]
    step = SqueezeExcitation(tokens, 8, 2).double()
    torch.nn.init.normal_(step.excite.weight)
    shape = {"NLC": (2, 12, 8), "NCHW": (2, 8, 3, 4), "windows": (6, 4, 8)}[layout]
    x = torch.randn(shape, dtype=torch.float64)
    seen = tokens.read(step(x))
    for i, image in enumerate(tokens.read(x)):
        mean = image.mean(0)
        hidden = (step.squeeze.weight @ mean + step.squeeze.bias).clamp(min=0)
        gate = 1 / (1 + torch.exp(-(step.excite.weight @ hidden + step.excite.bias)))
        torch.testing.assert_close(seen[i], image * gate)
    assert torch.autograd.gradcheck(step, x.requires_grad_())


def test_on_a_vit(tmp_path) -> None:
    model = short("vit_mini", depth=2)
    before, was = sum(p.numel() for p in model.parameters()), outputs(model, IMAGES)
    vs.surgery.squeeze_excite(model)
    d = 96
    assert sum(p.numel() for p in model.parameters()) - before == 2 * (2 * d * (d // 4) + d // 4 + d)
    assert vs.surgery.record(model)[0]["places"] == ["blocks.0.mlp", "blocks.1.mlp"]
    moved = (outputs(model, IMAGES)[0] - was[0]).abs().max()
    assert 0 < moved < 0.1 * was[0].std()  # the gates start nearly open
    check_operated(model, IMAGES, tmp_path)
    assert_equal(outputs(vs.surgery.undo(model), IMAGES), was)


def test_every_new_parameter_learns() -> None:
    model = vs.create_model("swin_mini")
    vs.surgery.squeeze_excite(model, where="both", ratio=8, layers="upper")
    model(IMAGES).pow(2).sum().backward()
    new = {name: p for name, p in model.named_parameters() if ".squeeze_excite." in name}
    assert len(new) == 4 * len(vs.surgery.record(model)[0]["places"]) > 0
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in new.values())


def test_nothing_to_do() -> None:
    with pytest.warns(NoEffectWarning, match="no mlp unit"):
        vs.surgery.squeeze_excite(vs.create_model("resnet_mini"))
