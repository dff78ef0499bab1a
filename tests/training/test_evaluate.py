"""The score of a model, against numbers computed in another way."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from vitscope.training import evaluate
from vitscope.training.evaluate import wilson


def test_accuracy_and_loss_by_hand() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).train()
    images, labels = torch.randn(50, 3, 2, 2), torch.arange(50) % 3
    score = evaluate(model, (images, labels), batch_size=7)
    logits = model(images).detach().double().numpy()
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    assert score.n == 50
    assert score.nll == pytest.approx(-log_p[np.arange(50), labels].mean(), rel=1e-6)
    assert score.accuracy == pytest.approx((logits.argmax(1) == labels.numpy()).mean())
    assert model.training


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (3, 10), (10, 10), (1800, 2000)])
def test_interval_ends_where_the_score_test_does(successes: int, n: int) -> None:
    """Wilson's interval: the shares p from which the seen one is at most 1.96 sqrt(p(1-p)/n) away."""
    share = successes / n
    low, high = wilson(successes, n)
    assert 0 <= low <= share <= high <= 1
    for end in (low, high):
        if 1e-12 < end < 1 - 1e-12:
            assert abs(share - end) / math.sqrt(end * (1 - end) / n) == pytest.approx(1.959964, rel=1e-6)
