import colorsys
import itertools

import numpy as np
import pytest
import torch

from vitscope.data.corruptions import weather
from vitscope.data.corruptions.filters import draws_for, uniforms


def pictures(n: int = 2, side: int = 20, channels: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, channels, side, side), dtype=torch.uint8, generator=generator)


def test_brightness_raises_the_value_of_hsv() -> None:
    images = pictures()
    images[0, :, 0, 0] = 0
    found = weather.brightness(images, (), 0.3)
    for i, j in itertools.product(range(0, 20, 3), repeat=2):
        hue, saturation, value = colorsys.rgb_to_hsv(*(images[0, :, i, j].double() / 255).tolist())
        expected = 255 * np.array(colorsys.hsv_to_rgb(hue, saturation, min(value + 0.3, 1.0)))
        np.testing.assert_allclose(found[0, :, i, j].double().numpy(), np.floor(expected + 1e-3), atol=1.0)
        assert np.abs(found[0, :, i, j].double().numpy() - expected).max() < 1.01


def test_clouds_are_made_by_diamonds_and_squares() -> None:
    side, decay = 16, 1.7
    drawn = uniforms(draws_for(0, [0], 1), side * side - 1)
    numbers = iter((2 * drawn[0].double() - 1).tolist())
    cloud = np.zeros((side, side))
    step, amplitude = side, 100.0
    while step >= 2:
        half = step // 2
        corners = [(i, j) for i in range(0, side, step) for j in range(0, side, step)]
        around = ((-half, -half), (-half, half), (half, -half), (half, half))
        beside = ((-half, 0), (half, 0), (0, -half), (0, half))
        for shift, neighbours in (((half, half), around), ((0, half), beside), ((half, 0), beside)):
            for i, j in corners:
                y, x = i + shift[0], j + shift[1]
                total = sum(cloud[(y + a) % side, (x + b) % side] for a, b in neighbours)
                cloud[y, x] = total / 4 + amplitude**2 * next(numbers)
        step, amplitude = half, amplitude / decay
    expected = (cloud - cloud.min()) / (cloud.max() - cloud.min())
    np.testing.assert_allclose(weather.plasma(drawn, side, decay)[0].numpy(), expected, atol=1e-4)


def test_fog_keeps_within_the_brightest_value() -> None:
    images = pictures()
    images[1] //= 2
    found = weather.fog(images, draws_for(0, range(2), 1), 1.5, 2.0)
    for before, after in zip(images, found, strict=True):
        assert int(after.max()) <= int(before.max())
    unlike = [(f.float() - i.float()).std() for i, f in zip(images, found, strict=True)]
    assert min(unlike) > 5


def test_frost_on_black_is_the_pane() -> None:
    black = torch.zeros(60, 3, 32, 32, dtype=torch.uint8)
    found = weather.frost(black, draws_for(0, range(60), 1), 1.0, 0.45, 0.2).double()
    colours = np.array(
        [(78, 149, 166), (201, 205, 214), (201, 205, 214), (138, 153, 165), (112, 123, 135), (71, 95, 105)]
    )
    assert found.mean((0, 2, 3)).numpy() == pytest.approx(0.45 * colours.mean(0), rel=0.12)
    assert len({tuple(image.flatten().tolist()[:20]) for image in found}) > 50  # cut at different places


def test_frost_covers_pictures_larger_than_a_pane() -> None:
    images = torch.zeros(1, 3, 140, 140, dtype=torch.uint8)
    found = weather.frost(images, draws_for(0, [0], 1), 1.0, 0.5, 0.2)  # panes of 102 pixels
    assert torch.equal(found[..., :38, :], found[..., 102:, :])
    assert torch.equal(found[..., :, :38], found[..., :, 102:])


def test_snow_without_flakes_is_a_whitened_picture() -> None:
    images = pictures()
    found = weather.snow(images, draws_for(0, range(2), 1), 0.0, 0.01, 1.0, 0.9, 4, 2.0, 0.8).double()
    unit = images.double() / 255
    grey = (unit * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1, keepdim=True)
    expected = 255 * (0.8 * unit + 0.2 * torch.maximum(unit, 1.5 * grey + 0.5)).clamp(max=1)
    assert float((found - expected).abs().max()) < 1.01


def test_snow_falls_downwards_and_is_there_twice() -> None:
    black = torch.zeros(30, 1, 64, 64, dtype=torch.uint8)
    found = weather.snow(black, draws_for(0, range(30), 1), 0.1, 0.3, 2.0, 0.5, 10, 4.0, 1.0).float()
    assert torch.equal(found, found.flip(2, 3))
    along, across = (float(found.diff(dim=axis).abs().mean()) for axis in (2, 3))
    assert along < 0.8 * across


@pytest.mark.parametrize("name", ["snow", "frost", "fog", "brightness"])
def test_grey_pictures(name: str) -> None:
    arguments = {
        "snow": (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        "frost": (1, 0.2, 0.2),
        "fog": (0.5, 3),
        "brightness": (0.1,),
    }
    images = pictures(channels=1)
    found = getattr(weather, name)(images, draws_for(0, range(2), 1), *arguments[name])
    assert found.shape == images.shape
    assert not torch.equal(found, images)
