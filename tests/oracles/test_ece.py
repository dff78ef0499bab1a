"""Calibration error against torchmetrics, which sums confidences in float32: hence the tolerance of 1e-5."""

import pytest
import torch
from torchmetrics.functional.classification import multiclass_calibration_error

from vitscope.engine.exam import Batch, Subject
from vitscope.exams.prediction.prediction import PredictionAccumulator, PredictionResult
from vitscope.models import create_model


def ours(logits: torch.Tensor, labels: torch.Tensor) -> float:
    accumulator = PredictionAccumulator(Subject("m", "d"))
    accumulator.update(Batch(logits, labels, torch.arange(len(labels))))
    result = accumulator.finish()
    assert isinstance(result, PredictionResult)
    return result.ece


def theirs(logits: torch.Tensor, labels: torch.Tensor) -> float:
    p = logits.double().softmax(1)
    return float(multiclass_calibration_error(p, labels, logits.shape[1], n_bins=15, norm="l1"))


@pytest.mark.parametrize("scale", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_drawn_predictions(scale: float, classes: int) -> None:
    generator = torch.Generator().manual_seed(classes)
    logits = torch.randn(3000, classes, generator=generator)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    assert ours(scale * logits, labels) == pytest.approx(theirs(scale * logits, labels), abs=1e-5)


def test_saturated_predictions() -> None:
    logits = torch.tensor([[1000.0, 0.0, 0.0]]).expand(500, 3)
    labels = (torch.arange(500) % 10 == 0).long()
    assert theirs(logits, labels) == pytest.approx(0.1, abs=1e-5)
    assert ours(logits, labels) == pytest.approx(theirs(logits, labels), abs=1e-5)


def test_a_models_own_predictions() -> None:
    torch.manual_seed(0)
    model = create_model("resnet_mini").eval()
    with torch.no_grad():
        logits = 40 * model(torch.randn(256, 3, 32, 32))
    labels = torch.where(torch.rand(256) < 0.8, logits.argmax(1), torch.randint(10, (256,)))
    assert ours(logits, labels) == pytest.approx(theirs(logits, labels), abs=1e-5)
