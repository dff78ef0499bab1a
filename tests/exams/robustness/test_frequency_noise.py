"""Noise of one band: its energy, its place, and a detector that only one band deceives."""

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.exams.factories import small_transformer
from tests.exams.robustness_models import NUMBERS, BandDetector, Numbers
from tests.exams.scores_by_hand import answers, under_conditions
from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import difference_interval
from vitscope.data import ImageData, batches
from vitscope.exams import frequency_noise
from vitscope.exams.robustness.frequency_noise import (
    BANDS,
    HIGH_MINUS_LOW,
    band_noise,
    band_numbers,
    below,
    radius,
)
from vitscope.findings.frequency_noise import FrequencyNoiseResult
from vitscope.models import create_model
from vitscope.results import Result
from vitscope.results.condition_rows import QUANTITIES


def with_noise(pixels: Tensor, band: int, places: Iterable[int], seed: int, strength: float) -> Tensor:
    """Of each image's own noise, the frequencies of a band."""
    distance = np.hypot(*np.meshgrid(*2 * [2 * np.fft.fftfreq(pixels.shape[2])], indexing="ij"))
    ring = (distance >= band / 10) & ((distance <= 1) if band == 9 else (distance < (band + 1) / 10))
    noisy = []
    for picture, place in zip(pixels.double().numpy(), places, strict=True):
        delta = np.random.default_rng([0, seed, place]).standard_normal(picture.shape, np.float32)
        noise = np.fft.ifft2(np.fft.fft2(delta.astype(np.float64)) * ring)
        assert np.abs(noise.imag).max() < 1e-12
        noisy.append(picture + noise.real * strength / 255 / np.sqrt(np.mean(noise.real**2)))
    return torch.from_numpy(np.stack(noisy))


def expected_table(model: nn.Module, images: Tensor, labels: Tensor) -> dict[tuple[str, str | None], float]:
    pixels = images / 2 + 0.5
    noisy = {
        f"noise at 0.{k}5π": with_noise(pixels, k, range(len(pixels)), seed=0, strength=32.0) for k in (2, 9)
    }
    return under_conditions(model, labels, {"clean": pixels, **noisy})


@pytest.mark.parametrize("size", [(32, 32), (21, 24)])
def test_noise_is_real_lies_in_its_band_and_has_its_energy(size: tuple[int, int]) -> None:
    """By Parseval's theorem: the power over frequencies, divided by their number, is the power over pixels."""
    white = torch.randn(3, 2, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    number = band_numbers(*size, BANDS)
    for k in range(BANDS):
        noise = band_noise(torch.fft.rfft2(white), number == k, size, rms=0.1)
        assert noise.dtype == torch.float64
        power = np.abs(np.fft.fft2(noise.numpy())) ** 2
        y, x = np.meshgrid(2 * np.fft.fftfreq(size[0]), 2 * np.fft.fftfreq(size[1]), indexing="ij")
        upper = 1.0 + 1e-9 if k == BANDS - 1 else (k + 1) / BANDS - 1e-9
        inside = (np.hypot(y, x) >= k / BANDS - 1e-9) & (np.hypot(y, x) < upper)
        assert power[..., ~inside].max(initial=0.0) < 1e-20
        energy = power[..., inside].sum((1, 2)) / (size[0] * size[1]) ** 2 / 2
        np.testing.assert_allclose(energy, 0.1**2, rtol=1e-12)
        plain = np.fft.ifft2(
            np.fft.fft2(white.numpy()) * inside
        ).real  # one factor for all channels of an image
        scale = 0.1 / np.sqrt((plain**2).mean((1, 2, 3), keepdims=True))
        np.testing.assert_allclose(noise.numpy(), scale * plain, atol=1e-12)


def test_only_noise_of_its_band_deceives_a_detector() -> None:
    model, grey = BandDetector(20, 0.3, 0.4), torch.full((12, 3, 20, 20), 0.5)
    result = frequency_noise(model, (grey, torch.zeros(12, dtype=torch.long)), batch_size=5)
    accuracy = result.scores.value[:, QUANTITIES.index("accuracy")]
    np.testing.assert_array_equal(
        accuracy, [1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1]
    )  # without noise, then band by band
    np.testing.assert_array_equal(result.scores.drop.value, 1 - accuracy)
    np.testing.assert_allclose(result.frequency, np.arange(0.05, 1, 0.1))
    low, high, difference = result.summary()["value"]
    np.testing.assert_allclose([low, high, difference], [0.2, 0.0, -0.2])
    assert result.kinds == ()  # anatomy finds nothing in it, and nothing is needed


def test_scores_are_those_of_noise_made_by_hand(fashion: ImageData) -> None:
    model = create_model("resnet_mini", pretrained=True).eval()
    result = frequency_noise(model, fashion, limit=30, batch_size=16, seed=4, strength=60.0)
    images, labels, indices = next(iter(batches(fashion, model, limit=30, batch_size=30, seed=4)))
    mean, std = (torch.tensor(model.pretrained_cfg[k]).view(3, 1, 1) for k in ("mean", "std"))
    for k in (2, 9):
        noisy = with_noise(images * std + mean, k, indices.tolist(), seed=4, strength=60.0)
        with torch.no_grad():
            right = (answers(model, noisy).argmax(1) == labels).double().mean()
        assert result.scores.value[1 + k, 0] == pytest.approx(float(right), abs=1e-12)
    assert result.scores.drop.value.max() > 0.1


def test_small_pictures_have_no_frequency_in_some_bands() -> None:
    grey = (torch.full((4, 3, 8, 8), 0.5), torch.zeros(4, dtype=torch.long))
    result = frequency_noise(BandDetector(8, 0.2, 0.3), grey)
    np.testing.assert_allclose(result.frequency, [0.05, 0.25, 0.35, 0.55, 0.75, 0.95])  # multiples of 0.25 pi
    assert len(result.conditions) == len(result.scores.value) == 7


def test_table_and_replicates(fashion: ImageData, tmp_path: Path) -> None:
    result = frequency_noise(small_transformer(), fashion, limit=24)
    table = result.table()
    assert set(table["quantity"]) == {"accuracy", "nll", "ece", "drop"}
    assert (table["n"] == 24).all()
    assert len(table[table["frequency"].notna()]) == 4 * 10
    assert (table["low"] <= table["value"] + 1e-12).all()
    drawn = result.replicates()[f"drop, {HIGH_MINUS_LOW}"]
    row = result.summary().set_index("condition").loc[HIGH_MINUS_LOW]
    np.testing.assert_allclose(drawn[0], row["value"])
    low, high = difference_interval(drawn[0], drawn[1:].std(), 24)
    np.testing.assert_allclose([row["low"], row["high"]], [low, high])
    assert {"msa", "mlp"} <= set(result.kinds)
    result.save(tmp_path)
    again = Result.load(tmp_path)
    assert isinstance(again, FrequencyNoiseResult)
    assert again.table().equals(table)


def test_noise_needs_a_strength(fashion: ImageData) -> None:
    with pytest.raises(VitscopeError, match="strength is 0"):
        frequency_noise(create_model("resnet_mini"), fashion, strength=0.0)


@pytest.mark.parametrize("numbers", NUMBERS)
def test_noise_by_hand_on_images_that_came_as_numbers(numbers: Numbers) -> None:
    result = frequency_noise(
        numbers.model, numbers.data, batch_size=33, seed=2, mean=numbers.mean, std=numbers.std
    )
    expected = numbers.accuracy(with_noise(numbers.pixels, 5, range(80), seed=2, strength=32.0))
    row = result.conditions.index("noise at 0.55π")
    assert result.scores.value[row, 0] == expected < numbers.accuracy(numbers.pixels)


@pytest.mark.parametrize("size", [(8, 8), (7, 9), (20, 6)])
def test_radius_by_hand(size: tuple[int, int]) -> None:
    height, width = size
    found = radius(height, width)
    assert found.shape == (height, width // 2 + 1)
    for k in range(height):
        for j in range(width // 2 + 1):
            signed = k if 2 * k < height else k - height
            assert math.isclose(
                float(found[k, j]), math.hypot(2 * signed / height, 2 * j / width), abs_tol=1e-12
            )


@pytest.mark.parametrize("side", [20, 32, 33])
def test_every_frequency_up_to_pi_is_in_one_band(side: int) -> None:
    number, distance = band_numbers(side, side, 10), radius(side, side)
    for k in range(10):
        own = distance[number == k]
        assert ((own >= k / 10 - 1e-12) & (own < (k + 1) / 10 - 1e-12 if k < 9 else own <= 1 + 1e-12)).all()
    assert torch.equal(number == -1, distance > 1 + 1e-12)  # the corners


def test_masks_are_symmetric_on_the_whole_plane() -> None:
    """Of a mask in rfft2's layout, irfft2 makes a mask that is the same at f and -f: its kernel is real and even."""
    for side in (16, 15):
        number = band_numbers(side, side, 10)
        for k in range(10):
            kernel = torch.fft.irfft2((number == k).double(), s=(side, side))
            spectrum = torch.fft.fft2(kernel)
            assert spectrum.imag.abs().max() < 1e-12
            assert torch.allclose(spectrum.real[:, : side // 2 + 1], (number == k).double(), atol=1e-12)
            turned = kernel.flip((0, 1)).roll((1, 1), (0, 1))
            assert torch.allclose(kernel, turned, atol=1e-12)


def test_below_leaves_out_the_cutoff_itself() -> None:
    low = below(8, 8, 0.5)
    assert low[0, 1] == 1  # 0.25 pi
    assert low[0, 2] == 0  # 0.5 pi
    assert below(20, 20, 0.3)[0, 3] == 0  # 0.3 pi, whatever way it is rounded
