import numpy as np
import pytest
import torch
from torch import nn

from tests.curvature.networks import batch, conv_net, known_hessian, small_vit
from vitscope.core.errors import UnsupportedModel, VitscopeError
from vitscope.curvature import Penalty, hessian_of


@pytest.mark.parametrize("make", [conv_net, small_vit])
def test_products_gradient_and_losses(make) -> None:
    model, (images, targets) = make(), batch()
    dense = known_hessian(make)
    with hessian_of(model, images, targets, penalty=Penalty(0.2, decay_all=True)) as product:
        assert product.size == len(dense) == sum(p.numel() for p in model.parameters())
        vector = torch.randn(product.size, dtype=torch.float64)
        for _ in range(2):  # the graph lives on
            found = product(vector)
        np.testing.assert_allclose(found.numpy(), dense @ vector.numpy() + 0.2 * vector.numpy(), atol=1e-8)
        assert product.count == 2
        gradient, nll, penalty = product.gradient(), product.nll, product.penalty
        named = product.named(vector)
    loss = -(targets * model(images).log_softmax(1)).sum(1).mean()
    expected = torch.autograd.grad(loss, list(model.parameters()))
    torch.testing.assert_close(gradient, torch.cat([g.reshape(-1) for g in expected]))
    assert nll == pytest.approx(loss.item())
    assert penalty == pytest.approx(0.1 * sum(float(p.detach().square().sum()) for p in model.parameters()))
    assert {name: part.shape for name, part in named.items()} == {
        n: p.shape for n, p in model.named_parameters()
    }
    assert torch.equal(torch.cat([part.reshape(-1) for part in named.values()]), vector)


def test_a_loss_without_curvature() -> None:
    model, (images, targets) = conv_net(), batch()
    model.register_parameter("extra", nn.Parameter(torch.zeros(3, dtype=torch.float64)))
    with hessian_of(model, images, targets, params="extra", penalty=Penalty(0.5, decay_all=True)) as product:
        assert torch.equal(
            product(torch.ones(3, dtype=torch.float64)), torch.full((3,), 0.5, dtype=torch.float64)
        )


@pytest.mark.parametrize("how", ["wrapped", "in place", "a part wrapped", "a part in place"])
def test_a_compiled_model_is_refused_as_its_second_derivative_is_lost(how: str) -> None:
    model, (images, targets) = small_vit(), batch()
    part = "blocks.0"
    if how == "wrapped":
        model = torch.compile(model, backend="eager")
    elif how == "in place":
        model.compile(backend="eager")
    elif how == "a part wrapped":
        model.set_submodule(part, torch.compile(model.get_submodule(part), backend="eager"))
    else:
        model.get_submodule(part).compile(backend="eager")
    named = part.replace(".", r"\.") if "part" in how else "model"
    with pytest.raises(UnsupportedModel, match=rf"compiled.*{named}"), hessian_of(model, images, targets):
        pass


class OnceOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return 2 * gradient * ctx.saved_tensors[0]


class Squares(nn.Module):
    def forward(self, x):
        return OnceOnly.apply(x)


def test_an_operation_without_second_derivative_is_named_as_the_reason() -> None:
    model, (images, targets) = conv_net(), batch()
    model[5] = Squares()
    with (
        pytest.raises(VitscopeError, match="Sequential cannot be differentiated twice"),
        hessian_of(model, images, targets) as product,
    ):
        product(torch.ones(product.size, dtype=torch.float64))


def test_half_precision_and_broken_weights_are_refused() -> None:
    model, (images, targets) = conv_net(), batch()
    with (
        pytest.raises(VitscopeError, match="needs float32 or float64"),
        hessian_of(model.bfloat16(), images, targets),
    ):
        pass
    model = conv_net()
    with torch.no_grad():
        model[0].weight[0] = float("nan")
    with (
        pytest.raises(VitscopeError, match="class scores of Sequential are not finite"),
        hessian_of(model, images, targets),
    ):
        pass
