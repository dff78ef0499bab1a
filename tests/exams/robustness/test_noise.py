"""Noise and blur against closed forms, and against models that are shown perturbed pictures by hand."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.exams.factories import small_transformer
from tests.exams.robustness.test_blur import by_scipy
from tests.exams.robustness_models import NUMBERS, Contrast, Numbers
from tests.exams.scores_by_hand import under_conditions
from vitscope.core.errors import VitscopeError
from vitscope.data import ImageData, batches
from vitscope.exams import blur, noise
from vitscope.exams.robustness.noise import perturbed
from vitscope.findings.blur import BlurResult
from vitscope.findings.noise import GAUSSIAN, SHOT, NoiseResult, Perturbation
from vitscope.results import Result
from vitscope.results.condition_rows import QUANTITIES

ACCURACY = QUANTITIES.index("accuracy")
GREY = torch.full((4, 3, 64, 64), 0.4)
PLACES = torch.arange(4)


def with_gaussian_noise(pixels: Tensor, strength: float, seed: int = 0) -> Tensor:
    """The first draw for every image, by numpy."""
    drawn = [
        np.random.Generator(np.random.SFC64((seed, i, 100, int(1000 * strength), 0))).standard_normal(
            pixels.shape[1:], np.float32
        )
        for i in range(len(pixels))
    ]
    return (pixels + strength / 255 * torch.from_numpy(np.stack(drawn))).clamp(0, 1)


def expected_table(model: nn.Module, images: Tensor, labels: Tensor) -> dict[tuple[str, str | None], float]:
    pixels = images.double() / 2 + 0.5
    pictures = {"clean": pixels, "Gaussian noise 10": with_gaussian_noise(pixels, 10.0)}
    return under_conditions(model, labels, pictures)


@pytest.mark.parametrize(
    ("perturbation", "deviation"),
    [
        (Perturbation(GAUSSIAN, 5.0), 5 / 255),
        (Perturbation(GAUSSIAN, 10.0), 10 / 255),
        (Perturbation(SHOT, 255.0), math.sqrt(0.4 / 255)),
    ],
)
def test_noise_is_as_strong_as_it_says(perturbation: Perturbation, deviation: float) -> None:
    change = perturbed(perturbation, GREY, 0, PLACES, 0).double() - 0.4
    n = change.numel()
    assert abs(float(change.mean())) < 4 * deviation / math.sqrt(n) + 1e-9
    assert float(change.std()) == pytest.approx(deviation, rel=4 / math.sqrt(2 * n))


def test_noise_belongs_to_image_seed_and_draw() -> None:
    for perturbation in (Perturbation(GAUSSIAN, 5.0), Perturbation(SHOT, 255.0)):
        first = perturbed(perturbation, GREY, 0, PLACES, 0)
        assert torch.equal(perturbed(perturbation, GREY[:2], 0, PLACES[2:], 0), first[2:])
        assert not torch.equal(perturbed(perturbation, GREY, 0, PLACES, 1), first)
        assert not torch.equal(perturbed(perturbation, GREY, 1, PLACES, 0), first)
    five, ten = (perturbed(Perturbation(GAUSSIAN, s), GREY, 0, PLACES, 0) - 0.4 for s in (5.0, 10.0))
    assert not torch.allclose(2 * five, ten, atol=1e-3)  # another strength is another draw


def test_noise_stays_in_the_range_of_pixels() -> None:
    edges = torch.cat([torch.zeros(2, 3, 16, 16), torch.ones(2, 3, 16, 16)])
    for perturbation in (Perturbation(GAUSSIAN, 10.0), Perturbation(SHOT, 255.0)):
        found = perturbed(perturbation, edges, 0, PLACES, 0)
        assert float(found.min()) >= 0
        assert float(found.max()) <= 1


def test_scores_are_means_over_draws(fashion: ImageData) -> None:
    model = vs.create_model("resnet_mini", pretrained=True).eval()
    result = noise(model, fashion, limit=40, batch_size=16, strengths=(60.0,), draws=3)
    ((images, labels, indices),) = list(batches(fashion, model, limit=40, batch_size=40))
    mean, std = (torch.tensor(model.pretrained_cfg[key]).view(-1, 1, 1) for key in ("mean", "std"))
    right = []
    for draw in range(3):
        noisy = perturbed(Perturbation(GAUSSIAN, 60.0), images * std + mean, 0, indices, draw)
        with torch.no_grad():
            right.append((model((noisy - mean) / std).argmax(1) == labels).double().numpy())
    assert [p.condition for p in result.perturbations] == ["clean", "shot noise", "Gaussian noise 60"]
    np.testing.assert_allclose(result.draw_accuracy[2], [r.mean() for r in right])
    assert result.scores.value[2, ACCURACY] == pytest.approx(np.mean(right))
    single = np.array([r.mean() for r in right])
    half = 4.302652730 * single.std(ddof=1) / math.sqrt(3)
    assert (result.draw_low[2], result.draw_high[2]) == pytest.approx(
        (single.mean() - half, single.mean() + half)
    )
    rows = result.table().set_index(["quantity", "condition"])
    assert rows.loc[("accuracy_over_draws", "Gaussian noise 60"), "n"] == 3
    assert rows.loc[("accuracy", "Gaussian noise 60"), "n"] == 40


def test_kept_and_loaded(fashion: ImageData, tmp_path: Path) -> None:
    kinds = {"noise": NoiseResult, "blur": BlurResult}
    results = vs.diagnose(small_transformer(), fashion, list(kinds), limit=10, out=tmp_path)
    for name, kind in kinds.items():
        again = Result.load(tmp_path / "exams" / name)
        assert isinstance(again, kind)
        assert again.table().equals(results[name].table())
        assert list(again.replicates()) == [f"accuracy, {p.condition}" for p in again.perturbations[1:]]
        assert (tmp_path / "figures" / f"{name}.png").exists()


def test_strengths_that_make_no_sense() -> None:
    data = (torch.zeros(1, 3, 16, 16), torch.zeros(1, dtype=torch.long))
    with pytest.raises(
        VitscopeError,
        match=r"strengths is \(0.0, 5\) \(0.0 in it\); expected several of: a number, more than 0",
    ):
        noise(Contrast(), data, strengths=(0.0, 5))
    with pytest.raises(VitscopeError, match="draws is 0"):
        noise(Contrast(), data, draws=0)
    with pytest.raises(VitscopeError, match="expected numbers above 0"):
        blur(Contrast(), data, strengths=())


@pytest.mark.parametrize("numbers", NUMBERS)
def test_noise_and_blur_by_hand_on_images_that_came_as_numbers(numbers: Numbers) -> None:
    said = {"batch_size": 33, "mean": numbers.mean, "std": numbers.std}
    result = noise(numbers.model, numbers.data, strengths=(20.0,), draws=1, seed=3, **said)
    noisy = with_gaussian_noise(numbers.pixels, 20.0, seed=3)
    assert result.scores.value[2, ACCURACY] == numbers.accuracy(noisy) < numbers.accuracy(numbers.pixels)

    blurred = blur(numbers.model, numbers.data, strengths=(0.5,), **said)
    expected = numbers.accuracy(by_scipy(numbers.pixels, 0.5))
    assert blurred.scores.value[1, ACCURACY] == expected < numbers.accuracy(numbers.pixels)
