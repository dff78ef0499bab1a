import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vitscope.core.errors import VitscopeError
from vitscope.curvature.loss import RandomModel, check_deterministic, cross_entropy, scores_of_images
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
    images = torch.randn(2, 3, 32, 32)
    check_deterministic(model, images)
    mc_dropout(model, p=0.3)
    model.eval()
    check_deterministic(model, images)
    with sampling(model), pytest.raises(RandomModel, match=r"differ by .* first after '"):
        check_deterministic(model, images)
