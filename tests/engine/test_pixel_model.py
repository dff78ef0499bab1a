import pytest
import torch

from tests.exams.robustness_models import LinearClassifier, Rounding, pictures
from vitscope.engine.pixels import NoGradient, PixelModel
from vitscope.models import create_model


def test_normalisation_is_folded_in() -> None:
    model = create_model("resnet_mini", pretrained=True).eval()
    seen = PixelModel(model, torch.float32)
    images = torch.randn(4, 3, 32, 32)
    assert torch.allclose(seen.logits(seen.pixels(images)), seen.clean(images), atol=1e-4)
    assert torch.equal(seen.clean(images), model(images).detach())
    config = model.pretrained_cfg
    blue = images[:, 2] * config["std"][2] + config["mean"][2]
    assert torch.allclose(seen.pixels(images)[:, 2], blue)


def test_gradient_is_that_of_the_picture_alone() -> None:
    model = LinearClassifier()
    model.pretrained_cfg["std"] = (0.5, 0.5, 0.5)
    gradient = PixelModel(model, torch.float32).gradient(pictures(5), lambda logits: logits[:, 1])
    expected = (model.weight.detach() / 2 / 0.5).view(1, 3, 4, 4).expand(5, 3, 4, 4)
    assert torch.allclose(gradient, expected)
    assert model.weight.grad is None
    assert not gradient.requires_grad


def test_a_model_that_cuts_the_gradient_off() -> None:
    seen = PixelModel(Rounding(), torch.float32)
    assert not seen.has_gradient(pictures(1))
    assert PixelModel(LinearClassifier(), torch.float32).has_gradient(pictures(1))
    with pytest.raises(NoGradient, match="no gradient with respect to the image"):
        seen.gradient(pictures(1), lambda logits: logits[:, 0])
