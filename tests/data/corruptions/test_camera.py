"""Noise and blur."""

import math

import numpy as np
import pytest
import torch

from vitscope.data.corruptions import camera, filters
from vitscope.data.corruptions.camera import gaussian_noise, impulse_noise, shot_noise
from vitscope.data.corruptions.filters import draws_for, whole_numbers

N = 4 * 3 * 64 * 64


def flat(level: int) -> torch.Tensor:
    return torch.full((4, 3, 64, 64), level, dtype=torch.uint8)


def draws(seed: int = 0) -> list[np.random.Generator]:
    return draws_for(seed, range(4), 0)


def test_gaussian_noise() -> None:
    found = gaussian_noise(flat(128), draws(), 0.06).double()
    deviation = 0.06 * 255
    assert abs(float(found.mean()) - 127.5) < 4 * deviation / math.sqrt(N)  # half a level is cut off
    assert abs(float(found.std()) - math.hypot(deviation, math.sqrt(1 / 12))) < 0.1


def test_shot_noise_counts_photons() -> None:
    for level, photons in ((40, 3), (200, 25), (128, 60)):
        mean = photons * level / 255
        counts = range(photons + 1)
        chance = [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in counts]
        found = shot_noise(flat(level), draws(), photons).numpy().ravel()
        for k in counts[:-1]:
            share = float(np.mean(found == int(k / photons * 255 + 1e-9)))
            assert abs(share - chance[k]) < 5 * math.sqrt(chance[k] / N) + 2**-15, (level, photons, k)
        bright = 1 - sum(chance[:-1])  # what is brighter than white is white
        assert abs(float(np.mean(found == 255)) - bright) < 5 * math.sqrt(bright / N) + 2**-15


def test_nothing_is_counted_in_the_dark() -> None:
    assert not shot_noise(flat(0), draws(), 60).any()


def test_impulse_noise() -> None:
    found = impulse_noise(flat(100), draws(), 0.27).numpy()
    for level in (0, 255):
        assert abs(float(np.mean(found == level)) - 0.135) < 5 * math.sqrt(0.135 / N)
    assert set(np.unique(found)) == {0, 100, 255}


def test_channels_are_on_their_own() -> None:
    found = gaussian_noise(flat(128), draws(), 0.06).double()
    red, green = found[:, 0].ravel() - found.mean(), found[:, 1].ravel() - found.mean()
    assert abs(float((red * green).mean() / (red.std() * green.std()))) < 5 / math.sqrt(len(red))


def pictures(n: int = 3, side: int = 24) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, 3, side, side), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("reach", [1, 2, 4])
def test_glass_takes_neighbours_one_pixel_after_the_other(reach: int) -> None:
    """The published code: from the last pixel to the first, each takes the value that a near one has by then."""
    images = pictures()
    found = camera._displaced(images, draws_for(0, range(3), 7), reach)
    inner = 24 - 2 * reach
    moves = whole_numbers(draws_for(0, range(3), 7), 2 * reach, 2, inner, inner).astype(int) - reach
    for n in range(3):
        expected = images[n].numpy().copy()
        for h in range(24 - reach, reach, -1):
            for w in range(24 - reach, reach, -1):
                down, right = moves[n, :, h - reach - 1, w - reach - 1]
                if h < 24 and w < 24:
                    expected[:, h, w] = expected[:, h + down, w + right]
        np.testing.assert_array_equal(found[n].numpy(), expected)


def test_glass_blurs_before_and_after() -> None:
    flat = torch.full((2, 3, 24, 24), 90, dtype=torch.uint8)
    assert torch.equal(camera.glass_blur(flat, draws_for(0, range(2), 1), 0.7, 1, 2), flat)
    images = pictures()
    sharp = camera.glass_blur(images, draws_for(0, range(3), 1), 0.05, 1, 1)
    soft = camera.glass_blur(images, draws_for(0, range(3), 1), 1.5, 1, 1)
    assert float(soft.float().std()) < 0.5 * float(sharp.float().std())


def test_motion_goes_at_most_45_degrees_from_the_horizontal() -> None:
    dot = torch.zeros(40, 1, 33, 33, dtype=torch.uint8)
    dot[:, :, 16, 16] = 255
    found = camera.motion_blur(dot, draws_for(0, range(40), 2), 6, 3.0)[:, 0].float()
    down, right = (
        (found * torch.arange(33).view(shape)).sum((1, 2)) / found.sum((1, 2)) - 16
        for shape in ((33, 1), (1, 33))
    )
    assert (right < 0).all()  # smeared towards where it came from
    assert (down.abs() <= 1.2 * right.abs()).all()
    assert down.min() < -0.5
    assert down.max() > 0.5


def test_zoom_blur_is_the_mean_over_zooms() -> None:
    images = pictures(n=1)
    unit = filters.to_unit(images)
    expected = (2 * unit + filters.zoomed(unit, 1.02) + filters.zoomed(unit, 1.04)) / 4
    found = camera.zoom_blur(images, (), 1.05, 0.02)
    assert torch.equal(found, filters.to_bytes(expected))


def test_defocus_spreads_a_point_over_a_disk() -> None:
    dot = torch.zeros(1, 1, 33, 33, dtype=torch.uint8)
    dot[0, 0, 16, 16] = 255
    found = camera.defocus_blur(dot, (), 3, 0.1)[0, 0]
    inside = (torch.arange(33)[:, None] - 16) ** 2 + (torch.arange(33) - 16) ** 2 <= 9
    assert set(found[inside].tolist()) == {255 // int(inside.sum())}
    assert not found[~inside].any()
