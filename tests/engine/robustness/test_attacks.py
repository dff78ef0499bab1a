"""Attacks on a linear classifier, whose answers are known."""

import torch

from tests.exams.robustness_models import LinearClassifier, pictures
from vitscope.exams.robustness.adversarial import fgsm, pgd, project


def test_fgsm_lowers_the_margin_of_a_linear_model_by_eps_times_the_sum_of_its_weights() -> None:
    model, pixels, eps = LinearClassifier().double(), pictures(6).double(), 0.05
    gradient = (
        -model.weight.detach().view(1, 3, 4, 4).expand_as(pixels)
    )  # the loss rises where the margin falls
    change = model.margin(fgsm(pixels, gradient, eps)) - model.margin(pixels)
    assert torch.allclose(change, -eps * model.weight.abs().sum().expand(6), atol=1e-12)


def test_pgd_reaches_the_same_corner_from_any_start() -> None:
    model, pixels, eps = LinearClassifier().double(), pictures(6).double(), 0.05
    gradient = -model.weight.detach().view(1, 3, 4, 4)
    start = 2 * torch.rand(pixels.shape, dtype=torch.float64) - 1
    moved = pgd(pixels, lambda x: gradient.expand_as(x), eps, steps=5, step=2.5 * eps / 5, start=start)
    assert torch.allclose(moved, fgsm(pixels, gradient, eps))


def test_pictures_stay_in_the_ball_and_in_range() -> None:
    pixels = torch.rand(4, 3, 8, 8)
    pixels[0, 0, 0, :4] = torch.tensor([0.0, 1.0, 1e-4, 1 - 1e-4])
    seen = []

    def wild(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return torch.randn(x.shape)

    moved = pgd(pixels, wild, 0.1, steps=7, step=0.08, start=2 * torch.rand(pixels.shape) - 1)
    for picture in (*seen, moved):
        assert float((picture - pixels).abs().max()) <= 0.1 + 1e-6
        assert 0 <= float(picture.min()) <= float(picture.max()) <= 1
    assert float((moved - pixels).abs().max()) > 0.09


def test_what_is_no_picture_is_left_alone() -> None:
    outside = torch.tensor([[-0.5, 1.5, 0.5]])
    assert torch.equal(project(outside, outside, 0.1), outside)
    assert torch.allclose(project(outside + 1, outside, 0.1), torch.tensor([[-0.4, 1.5, 0.6]]))
    assert torch.allclose(project(outside - 1, outside, 0.1), torch.tensor([[-0.5, 1.4, 0.4]]))
