"""Attacks against those of foolbox, on trained models."""

import pytest
import torch

from vitscope.data import ImageData, batches, load_data
from vitscope.engine.pixels import PixelModel
from vitscope.exams.robustness.adversarial import fgsm, pgd
from vitscope.models import create_model

EPS = 4 / 255


@pytest.fixture(scope="module")
def fashion() -> ImageData:
    return load_data("fashion", split="test")


@pytest.mark.parametrize("name", ["resnet_mini", "vit_mini"])
def test_pictures_are_those_of_foolbox(name: str, fashion: ImageData) -> None:
    foolbox = pytest.importorskip("foolbox", reason="pip install foolbox")
    model = create_model(name, pretrained=True).eval()
    images, labels, _ = next(iter(batches(fashion, model, limit=8, batch_size=8)))
    config = model.pretrained_cfg
    preprocessing = {"mean": list(config["mean"]), "std": list(config["std"]), "axis": -3}
    peer = foolbox.PyTorchModel(model, bounds=(0, 1), preprocessing=preprocessing)
    seen = PixelModel(model, torch.float32)
    pixels = seen.pixels(images).clamp(0, 1)

    def gradient_at(pictures: torch.Tensor) -> torch.Tensor:
        def loss(logits: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(logits, labels, reduction="none")

        return seen.gradient(pictures, loss)

    attack = foolbox.attacks.LinfFastGradientAttack(random_start=False)
    expected = attack.run(peer, pixels, foolbox.criteria.Misclassification(labels), epsilon=EPS)
    _alike(fgsm(pixels, gradient_at(pixels), EPS), expected)

    attack = foolbox.attacks.LinfPGD(steps=4, abs_stepsize=EPS / 2, random_start=False)
    expected = attack.run(peer, pixels, foolbox.criteria.Misclassification(labels), epsilon=EPS)
    moved = pgd(pixels, gradient_at, EPS, steps=4, step=EPS / 2, start=torch.zeros_like(pixels))
    _alike(moved, expected)
    assert torch.equal(seen.logits(moved).argmax(1), peer(expected).argmax(1))


def _alike(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Pixels whose gradient is nearly 0 may go either way with the rounding of another order of operations."""
    assert found.shape == expected.shape
    assert float((found - expected).abs().gt(1e-5).double().mean()) < 1e-3
