"""Radii and bands against the full plane, frequency by frequency."""

import math

import pytest
import torch

from vitscope.engine.robustness.swaps import band_numbers, below, radius


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
