"""Mixed pictures against plain sums of waves."""

import math

import numpy as np
import pytest
import torch

from vitscope.engine.robustness.swaps import pairs, swap_bands, swap_phase


def two(height: int = 7, width: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.rand(2, 2, 3, height, width, dtype=torch.float64, generator=generator)
    return a, b


@pytest.mark.parametrize("size", [(8, 8), (7, 9), (6, 11)])
def test_a_picture_and_itself_give_the_picture(size: tuple[int, int]) -> None:
    a, _ = two(*size)
    assert torch.allclose(swap_bands(a, a, 0.3), a, atol=1e-12)
    assert torch.allclose(swap_phase(a, a), a, atol=1e-12)


def test_bands_on_the_whole_plane() -> None:
    a, b = two()
    mixed = np.fft.fft2(swap_bands(a, b, 0.5).numpy())
    first, second = np.fft.fft2(a.numpy()), np.fft.fft2(b.numpy())
    for k, f in enumerate(np.fft.fftfreq(7)):
        for j, g in enumerate(np.fft.fftfreq(8)):
            expected = first if 2 * math.hypot(f, g) < 0.5 - 1e-9 else second
            np.testing.assert_allclose(mixed[..., k, j], expected[..., k, j], atol=1e-12)


def test_phase_and_amplitude_on_the_whole_plane() -> None:
    a, b = two()
    mixed = np.fft.fft2(swap_phase(a, b).numpy())
    np.testing.assert_allclose(np.abs(mixed), np.abs(np.fft.fft2(b.numpy())), atol=1e-12)
    turn = mixed / np.fft.fft2(a.numpy())
    np.testing.assert_allclose(turn.imag, 0.0, atol=1e-10)
    assert (turn.real > 0).all()


def test_the_ends_of_the_cutoff() -> None:
    a, b = two()
    assert torch.allclose(swap_bands(a, b, 1.45), a, atol=1e-12)  # beyond the corners at sqrt(2)
    barely = swap_bands(a, b, 0.01)  # the mean alone is of the first
    assert torch.allclose(barely - b, (a - b).mean((2, 3), keepdim=True).expand_as(a), atol=1e-12)


def test_pairs_are_of_different_classes_and_disjoint() -> None:
    labels = np.random.default_rng(0).integers(0, 4, 101).tolist()
    found = pairs(labels)
    places = [place for pair in found for place in pair]
    assert len(set(places)) == len(places)
    assert all(labels[i] != labels[j] for i, j in found)
    left = {labels[place] for place in set(range(101)) - set(places)}
    assert len(left) == 1  # nothing more can be paired
    assert pairs([1, 1, 1]) == pairs([]) == []
