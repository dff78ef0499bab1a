"""Proof that a module is plain attention."""

import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from vitscope.anatomy import dissect
from vitscope.surgery import CannotOperate
from vitscope.surgery.tools.attention_replacement import StandIn, prove, run_and_see
from vitscope.surgery.tools.projections import read_projections

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def proved(model: nn.Module) -> StandIn:
    body = dissect(model, IMAGES)
    unit = body.parts.of_kind("msa")[0]
    found = read_projections(body, unit)
    return prove(body, unit, found, run_and_see(model, IMAGES, [found.call.path])[found.call.path])


def test_what_was_given_and_made_is_seen() -> None:
    model = vs.create_model("vit_mini")
    seen = run_and_see(model, IMAGES, ["blocks.0.attn", "norm"])
    assert model.training
    assert not model.blocks[0].attn._forward_hooks
    attention = seen["blocks.0.attn"]
    with torch.no_grad():
        assert torch.equal(model.eval().blocks[0].attn(*attention.args, **attention.kwargs), attention.output)
        assert torch.equal(model.norm(*seen["norm"].args), seen["norm"].output)


@pytest.mark.parametrize("fused", [True, False])
def test_dropout_is_found(fused: bool) -> None:
    model = vs.create_model("vit_mini", attn_drop_rate=0.1, proj_drop_rate=0.2)
    for block in model.blocks:
        block.attn.fused_attn = fused
    state = torch.get_rng_state()
    assert proved(model).dropout == (0.1, 0.2)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training


def test_rebuilt_with_all_heads_it_is_the_same() -> None:
    model = vs.create_model("vit_mini", pretrained=True).eval()
    found = proved(model)
    x = torch.randn(2, 65, 96)
    assert found.heads == 3
    torch.testing.assert_close(found.build(3).eval()(x), model.get_submodule(found.path)(x))


def test_what_computes_something_else_is_refused() -> None:
    model = vs.create_model("vit_mini").eval()

    def double(_: nn.Module, __: object, output: Tensor) -> None:
        output.detach().numpy()[:] *= 2  # no torch operation that could be watched

    model.blocks[0].attn.register_forward_hook(double)
    with pytest.raises(CannotOperate, match="alone do not give its output"):
        proved(model)
