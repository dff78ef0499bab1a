"""Attacks on a linear classifier, whose accuracy under attack is known, and on real ones."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.exams.robustness_models import NUMBERS, LinearClassifier, Numbers, Rounding, pictures
from tests.exams.scores_by_hand import answers, under_conditions
from vitscope.core.errors import VitscopeError
from vitscope.data import ImageData, batches
from vitscope.exams import adversarial
from vitscope.exams.robustness.adversarial import fgsm, pgd, project
from vitscope.findings.adversarial import AdversarialResult
from vitscope.models import create_model
from vitscope.results import Result
from vitscope.results.condition_rows import QUANTITIES

ACCURACY = QUANTITIES.index("accuracy")


def attacked_by_hand(
    logits: Callable[[Tensor], Tensor], pixels: Tensor, labels: Tensor, eps: float
) -> Tensor:
    """FGSM, eps in 1/255."""
    pixels = pixels.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(logits(pixels), labels), pixels)
    return (pixels + eps / 255 * gradient.sign()).clamp(0, 1).detach()


def expected_table(model: nn.Module, images: Tensor, labels: Tensor) -> dict[tuple[str, str | None], float]:
    pixels = images.double() / 2 + 0.5
    moved = attacked_by_hand(partial(answers, model), pixels, labels, 4.0)
    return under_conditions(model, labels, {"clean": pixels, "FGSM 4/255": moved}, "accuracy")


def test_accuracy_on_a_linear_model_is_the_share_of_large_margins() -> None:
    """Each attack moves the margin of the true class by eps times the sum of |w|, as no pixel is near 0 or 1."""
    model, images = LinearClassifier(), pictures(60)
    margin = model.margin(images).detach()
    labels = (margin > 0).long()
    labels[:6] = 1 - labels[:6]  # wrong without an attack
    own = torch.where(labels == 1, margin, -margin).double()
    strengths = (1.0, 4.0, 12.0)
    result = adversarial(model, (images, labels), batch_size=25, strengths=strengths, steps=4)
    expected = [
        float((own > eps / 255 * model.weight.abs().sum()).double().mean()) for eps in (0, *strengths)
    ]
    assert 1 > expected[0] > expected[1] > expected[2] > expected[3] > 0
    np.testing.assert_allclose(result.scores.value[:4, ACCURACY], expected)
    np.testing.assert_allclose(result.scores.value[4:, ACCURACY], expected[1:])
    np.testing.assert_allclose(result.scores.drop.value[1:4], expected[0] - np.array(expected[1:]))


@pytest.mark.parametrize("name", ["resnet_mini", "vit_mini"])
def test_fgsm_by_hand_on_trained_models(name: str, fashion: ImageData) -> None:
    model = create_model(name, pretrained=True).eval()
    result = adversarial(model, fashion, limit=16, batch_size=10, strengths=(8,), steps=2)
    images, labels, _ = next(iter(batches(fashion, model, limit=16, batch_size=16)))
    mean, std = (torch.tensor(model.pretrained_cfg[k]).view(3, 1, 1) for k in ("mean", "std"))
    attacked = attacked_by_hand(partial(answers, model), images * std + mean, labels, 8.0)
    with torch.no_grad():
        right = (answers(model, attacked).argmax(1) == labels).double().mean()
    clean, fgsm, pgd = result.scores.value[:, ACCURACY]
    assert fgsm == pytest.approx(float(right), abs=1e-12)
    assert clean > fgsm
    assert clean > pgd


def test_nothing_is_left_behind(fashion: ImageData) -> None:
    model = create_model("vit_mini", pretrained=True).train()
    kept = torch.ones_like(next(model.parameters()))
    next(model.parameters()).grad = kept
    adversarial(model, fashion, limit=8, strengths=(4,), steps=1)
    first, *others = model.parameters()
    assert first.grad is kept
    assert bool((kept == 1).all())
    assert all(p.grad is None and p.requires_grad for p in others)
    assert model.training


def test_pgd_only_falls_with_its_strength(fashion: ImageData) -> None:
    model = create_model("resnet_mini", pretrained=True)
    result = adversarial(model, fashion, limit=12, strengths=(8, 1, 4), steps=2)
    assert [a.eps for a in result.attacked if a.attack == "PGD"] == [1, 4, 8]
    rows = [i for i, a in enumerate(result.attacked) if a.attack == "PGD"]
    assert (np.diff(result.scores.value[[0, *rows], ACCURACY]) <= 0).all()
    again = adversarial(model, fashion, limit=12, batch_size=7, strengths=(1, 4, 8), steps=2)
    np.testing.assert_array_equal(again.scores.value[:, ACCURACY], result.scores.value[:, ACCURACY])


def test_a_model_without_gradient_has_an_empty_result(tmp_path: Path) -> None:
    data = (pictures(6), torch.zeros(6, dtype=torch.long))
    result = vs.diagnose(Rounding(), data, ["adversarial"], out=tmp_path)["adversarial"]
    assert isinstance(result, AdversarialResult)
    assert (result.n, len(result.table()), len(result.summary()), result.replicates()) == (6, 0, 0, {})
    assert not list((tmp_path / "figures").glob("*"))  # there is nothing to draw


def test_tables_and_options(tmp_path: Path) -> None:
    data = (pictures(6), torch.zeros(6, dtype=torch.long))
    result = adversarial(LinearClassifier(), data, strengths=(2,), steps=0)
    assert [a.condition for a in result.attacked] == ["clean", "FGSM 2/255"]
    result.save(tmp_path)
    table = Result.load(tmp_path).table()
    assert table.equals(result.table())
    assert list(table["quantity"]) == ["accuracy", "accuracy", "drop"]
    with pytest.raises(
        VitscopeError, match=r"strengths is \(0,\) \(0 in it\); expected several of: a number, more than 0"
    ):
        adversarial(LinearClassifier(), data, strengths=(0,))


@pytest.mark.parametrize("numbers", NUMBERS)
def test_fgsm_by_hand_on_images_that_came_as_numbers(numbers: Numbers) -> None:
    result = adversarial(
        numbers.model,
        numbers.data,
        batch_size=33,
        strengths=(1, 4),
        steps=0,
        mean=numbers.mean,
        std=numbers.std,
    )
    by_hand = [attacked_by_hand(numbers.logits, numbers.pixels, numbers.labels, eps) for eps in (0, 1, 4)]
    expected = [numbers.accuracy(moved) for moved in by_hand]
    assert expected[0] > expected[1] > expected[2]
    assert result.scores.value[:, ACCURACY].tolist() == expected


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
