"""Noise against what its distribution says in closed form."""

import math

import numpy as np
import torch

from vitscope.data.corruptions.filters import draws_for
from vitscope.data.corruptions.noise import gaussian_noise, impulse_noise, shot_noise

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
