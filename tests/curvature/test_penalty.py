import pytest
import torch
from torch import nn

from vitscope.curvature.penalty import Penalty
from vitscope.models import create_model


@pytest.mark.parametrize(
    ("convention", "value"),
    [("half_square", lambda p: 0.3 / 2 * p.square().sum()), ("norm", lambda p: 0.3 * p.norm())],
)
def test_value_and_product_against_autograd(convention, value) -> None:
    penalty = Penalty(0.3, convention)
    parameter = torch.randn(4, 5, dtype=torch.float64).requires_grad_()
    vector = torch.randn(20, dtype=torch.float64)
    assert penalty.value(parameter) == pytest.approx(value(parameter).item())
    gradient = torch.autograd.grad(value(parameter), parameter, create_graph=True)[0]
    expected = torch.autograd.grad(gradient, parameter, vector.view(4, 5))[0].reshape(-1)
    product = torch.ones(20, dtype=torch.float64)
    penalty.add_product(parameter, vector, product)
    torch.testing.assert_close(product, 1 + expected)


def test_a_parameter_of_zeros_has_no_curvature_of_its_norm() -> None:
    product = torch.zeros(3)
    Penalty(0.3, "norm").add_product(torch.zeros(3), torch.ones(3), product)
    assert torch.equal(product, torch.zeros(3))


def test_what_is_covered() -> None:
    model = create_model("vit_mini", depth=1)
    named = dict(model.named_parameters())
    names = list(named)
    spared = [name for name, p in named.items() if p.ndim <= 1 or name in ("cls_token", "pos_embed")]
    assert [names[i] for i in Penalty(0.1).covered(model, named)] == [n for n in names if n not in spared]
    assert Penalty(0.1, decay_all=True).covered(model, named) == list(range(len(names)))
    assert Penalty(0.1, "norm").covered(model, named) == list(range(len(names)))
    assert Penalty(0.0).covered(model, named) == []
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    assert Penalty(0.1).covered(net, dict(net.named_parameters())) == [0]
