"""Every filter against loops over pixels in float64."""

import math

import numpy as np
import pytest
import torch

from vitscope.data.corruptions import filters


def pictures(n: int = 2, channels: int = 3, height: int = 12, width: int = 9) -> torch.Tensor:
    return torch.rand(n, channels, height, width, generator=torch.Generator().manual_seed(0))


def test_bytes_and_back() -> None:
    levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    assert torch.equal(filters.to_bytes(filters.to_unit(levels)), levels)
    found = filters.to_bytes(torch.tensor([-0.2, 1.7, 0.999, 100.6 / 255]))
    assert found.tolist() == [0, 255, 254, 100]  # clipped, and cut off


@pytest.mark.parametrize(
    ("sigma", "truncate", "border"),
    [(1.3, 4.0, "edge"), (0.05, 4.0, "edge"), (2.0, 3.0, "mirror"), (9.0, 3.0, "mirror")],
)
def test_gaussian_blur(sigma: float, truncate: float, border: str) -> None:
    x = pictures()
    plane = x[1, 2].double().numpy()
    radius = int(truncate * sigma + 0.5)
    weights = np.array([math.exp(-0.5 * (k / sigma) ** 2) for k in range(-radius, radius + 1)])
    weights /= weights.sum()
    mode = {"edge": "edge", "mirror": "symmetric"}[border]
    for axis in (0, 1):
        padded = np.pad(plane, radius, mode=mode)
        take = [
            padded[radius + k : radius + k + plane.shape[0], radius : -radius or None]
            if axis == 0
            else padded[radius : -radius or None, radius + k : radius + k + plane.shape[1]]
            for k in range(-radius, radius + 1)
        ]
        plane = sum(w * t for w, t in zip(weights, take, strict=True))
    found = filters.gaussian_blur(x, sigma, truncate, border)[1, 2]
    np.testing.assert_allclose(found.numpy(), plane, atol=2e-6)


def test_correlate() -> None:
    x = pictures(height=20, width=17)
    kernel = torch.rand(5, 5, generator=torch.Generator().manual_seed(1))
    plane = np.pad(x[0, 1].double().numpy(), 2, mode="reflect")
    expected = np.zeros((20, 17))
    for i in range(20):
        for j in range(17):
            expected[i, j] = (plane[i : i + 5, j : j + 5] * kernel.double().numpy()).sum()
    np.testing.assert_allclose(filters.correlate(x, kernel)[0, 1].numpy(), expected, atol=1e-5)


def test_disk_is_round_and_weighs_one() -> None:
    for radius, softness in ((0.4, 0.5), (1.5, 0.1), (3, 0.1), (10, 0.5)):
        kernel = filters.disk(radius, softness)
        # the published kernel of a disk that fills its square is softened with mirrored edges, and a little heavier
        assert float(kernel.sum()) == pytest.approx(1.0, abs=0.02 if radius > 8 else 1e-5)
        assert torch.allclose(kernel, kernel.T)
        assert torch.allclose(kernel, kernel.flip(0))
        assert abs(len(kernel) // 2 - radius) <= 2


def test_motion_blur() -> None:
    x = pictures(height=14, width=15)
    radius, sigma, angles = 3, 2.0, [30.0, -100.0]
    found = filters.motion_blur(x, radius, sigma, angles)
    weights = np.array([math.exp(-0.5 * (k / sigma) ** 2) for k in range(2 * radius + 1)])
    weights /= weights.sum()
    for n, angle in enumerate(angles):
        plane, expected = x[n, 0].double().numpy(), np.zeros((14, 15))
        for i in range(14):
            for j in range(15):
                for k, weight in enumerate(weights):
                    y = i + math.ceil(k * math.sin(math.radians(angle)) - 0.5)
                    z = j + math.ceil(k * math.cos(math.radians(angle)) - 0.5)
                    expected[i, j] += weight * plane[min(max(y, 0), 13), min(max(z, 0), 14)]
        np.testing.assert_allclose(found[n, 0].numpy(), expected, atol=1e-6)


def test_zoomed() -> None:
    x = pictures(height=16, width=16)
    assert torch.equal(filters.zoomed(x, 1.0), x)
    factor, inner = 1.3, math.ceil(16 / 1.3)
    size, top = round(inner * factor), (16 - inner) // 2
    plane = x[0, 0].double().numpy()[top : top + inner, top : top + inner]
    at = np.arange(size) * (inner - 1) / (size - 1)
    low = np.minimum(at.astype(int), inner - 2)
    share = at - low
    rows = plane[low] * (1 - share)[:, None] + plane[low + 1] * share[:, None]
    expected = rows[:, low] * (1 - share) + rows[:, low + 1] * share
    cut = (size - 16) // 2
    np.testing.assert_allclose(
        filters.zoomed(x, factor)[0, 0].numpy(), expected[cut : cut + 16, cut : cut + 16], atol=1e-5
    )
