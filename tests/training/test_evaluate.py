"""The score of a model, against numbers computed in another way."""

import numpy as np
import pytest
import torch
from torch import nn

from vitscope.training import evaluate


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


def test_accuracy_of_one_has_wilsons_interval() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    torch.nn.init.zeros_(model[1].weight)
    score = evaluate(model, (torch.randn(50, 3, 2, 2), model[1].bias.argmax().expand(50)), batch_size=7)
    assert score.accuracy == score.high == 1.0
    assert score.low == pytest.approx(50 / (50 + 1.959964**2), rel=1e-6)
