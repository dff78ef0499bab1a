"""Calibration and classes against torchmetrics, on what a trained model says about real images.

torchmetrics keeps confidences in float32: hence the tolerance of 1e-5 for the calibration error.
"""

from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from vitscope.data import ImageData, batches, load_data
from vitscope.exams import prediction
from vitscope.exams.prediction.prediction import Temperature
from vitscope.models import create_model

Batches = list[tuple[Tensor, Tensor]]


@pytest.fixture(scope="module")
def metrics() -> ModuleType:
    """Imported by the processes that compare, and not by all that collect tests."""
    from torchmetrics import classification

    return classification


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return create_model("resnet_mini", pretrained=True).eval()


@pytest.fixture(scope="module")
def data() -> ImageData:
    return load_data("fashion").fraction(0.2)


@pytest.fixture(scope="module")
def said(model: nn.Module, data: ImageData) -> Batches:
    with torch.no_grad():
        return [(model(images), labels) for images, labels, _ in batches(data, model, batch_size=100)]


@pytest.mark.parametrize("temperature", [None, 0.3, 4.0])
def test_calibration_error(
    metrics: ModuleType, model: nn.Module, data: ImageData, said: Batches, temperature: Temperature
) -> None:
    theirs = metrics.MulticlassCalibrationError(num_classes=10, n_bins=15, norm="l1")
    for logits, labels in said:
        theirs.update((logits.double() / float(temperature or 1.0)).softmax(1), labels)
    ours = prediction(model, data, batch_size=64, temperature=temperature)
    assert ours.ece == pytest.approx(float(theirs.compute()), abs=1e-5)


def test_classes(metrics: ModuleType, model: nn.Module, data: ImageData, said: Batches) -> None:
    recall, precision = (
        m(num_classes=10, average=None) for m in (metrics.MulticlassRecall, metrics.MulticlassPrecision)
    )
    for logits, labels in said:
        recall.update(logits, labels)
        precision.update(logits, labels)
    ours = prediction(model, data, batch_size=64)
    np.testing.assert_allclose(ours.by_class.value[:, 0], recall.compute(), atol=1e-6)
    np.testing.assert_allclose(ours.by_class.value[:, 1], precision.compute(), atol=1e-6)


def test_largest_gap_of_a_bin(metrics: ModuleType, model: nn.Module, data: ImageData, said: Batches) -> None:
    theirs = metrics.MulticlassCalibrationError(num_classes=10, n_bins=15, norm="max")
    for logits, labels in said:
        theirs.update(logits.double().softmax(1), labels)
    ours = prediction(model, data, batch_size=64)
    gaps = np.abs(ours.bin_confidence - ours.bin_accuracy.value)
    assert np.nanmax(gaps) == pytest.approx(float(theirs.compute()), abs=1e-5)
