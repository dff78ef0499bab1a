"""The loss, whether it is one, and its l2 term."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vitscope.core.errors import VitscopeError
from vitscope.curvature.loss import (
    CrossEntropy,
    Penalty,
    RandomModel,
    check_deterministic,
    cross_entropy,
    scores_of_images,
)
from vitscope.models import create_model
from vitscope.surgery import mc_dropout
from vitscope.surgery.mc_dropout import sampling


def test_hard_and_soft_targets_and_a_part_of_a_batch() -> None:
    scores = torch.randn(6, 3, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    soft = torch.rand(6, 3).softmax(1)
    by_hand = -(soft.double() * scores.log_softmax(1)).sum(1)
    assert float(cross_entropy(scores, soft)) == pytest.approx(float(by_hand.mean()))
    assert float(cross_entropy(scores, labels)) == pytest.approx(
        float(F.nll_loss(scores.log_softmax(1), labels))
    )
    halves = cross_entropy(scores[:2], soft[:2], 6) + cross_entropy(scores[2:], soft[2:], 6)
    assert float(halves) == pytest.approx(float(by_hand.mean()))


def test_a_model_that_is_no_classifier() -> None:
    with pytest.raises(VitscopeError, match=r"puts out \(2, 4, 3, 3\) for 2 images; expected class scores"):
        scores_of_images(nn.Conv2d(3, 4, 1), torch.randn(2, 3, 3, 3))


def test_mc_dropout_is_refused_only_while_it_draws() -> None:
    model = create_model("vit_mini", depth=1).eval()
    loss = CrossEntropy(torch.randn(2, 3, 32, 32), torch.tensor([0, 1]))
    check_deterministic(model, loss)
    mc_dropout(model, p=0.3)
    model.eval()
    check_deterministic(model, loss)
    with sampling(model), pytest.raises(RandomModel, match=r"differ by .* first after '"):
        check_deterministic(model, loss)


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
    net.pos_embedding = nn.Parameter(torch.ones(9, 4))  # of no timm model
    spares = {name: place for place, (name, _) in enumerate(net.named_parameters())}
    assert Penalty(0.1).covered(net, dict(net.named_parameters())) == [spares["0.weight"]]
