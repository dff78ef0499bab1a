import io

import numpy as np
import pytest
import torch
from PIL import Image

from vitscope.data.corruptions import digital
from vitscope.data.corruptions.filters import draws_for, uniforms


def pictures(n: int = 2, height: int = 24, width: int = 20, channels: int = 3) -> torch.Tensor:
    """Smooth ones with some noise."""
    y, x = torch.meshgrid(torch.linspace(0, 6, height), torch.linspace(0, 5, width), indexing="ij")
    phase = torch.arange(n * channels).view(n, channels, 1, 1)
    smooth = 128 + 90 * torch.sin(x + phase) * torch.cos(y - phase)
    noise = torch.randint(-30, 31, (n, channels, height, width), generator=torch.Generator().manual_seed(0))
    return (smooth + noise).clamp(0, 255).to(torch.uint8)


def as_pil(image: torch.Tensor) -> Image.Image:
    return Image.fromarray(image.permute(1, 2, 0).squeeze(2).numpy())


def test_contrast() -> None:
    images = pictures()
    for n in range(2):
        for c in range(3):
            plane = images[n, c].double()
            expected = (plane - plane.mean()) * 0.3 + plane.mean()
            found = digital.contrast(images, (), 0.3)[n, c].double()
            assert float((found - expected).abs().max()) < 1.001


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("side", "left"),
    [(32, 0.95), (32, 0.75), (32, 0.6), (32, 0.25), (31, 0.65), (224, 0.6)],  # 31: uneven boxes
)
def test_pixelate_equals_the_image_library(channels: int, side: int, left: float) -> None:
    images = pictures(height=side, width=side + 5, channels=channels)
    found = digital.pixelate(images, (), left)
    few, box, nearest = int(side * left), Image.Resampling.BOX, Image.Resampling.NEAREST
    for image, ours in zip(images, found, strict=True):
        small = as_pil(image).resize((int((side + 5) * left), few), box)
        expected = np.asarray(small.resize((side + 5, side), nearest))
        np.testing.assert_array_equal(ours.permute(1, 2, 0).squeeze(2).numpy(), expected)


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_equals_the_image_library(channels: int) -> None:
    images = pictures(channels=channels)
    for image, ours in zip(images, digital.jpeg_compression(images, (), 40), strict=True):
        file = io.BytesIO()
        as_pil(image).save(file, "JPEG", quality=40)
        difference = ours.permute(1, 2, 0).squeeze(2).numpy().astype(int) - np.asarray(Image.open(file))
        assert np.abs(difference).max() <= 1


def test_elastic_displacements_are_bilinear_and_mirrored_at_the_edges() -> None:
    images = pictures(n=1)
    found = digital.elastic_transform(images, draws_for(0, [0], 1), 30.0, 1.5, 0.0)[0].double()
    drawn = 2 * uniforms(draws_for(0, [0], 1), 2, 24, 20)[0].double().numpy() - 1
    offsets = np.arange(-5, 6)  # 3 deviations, rounded up by a half
    weights = np.exp(-0.5 * (offsets / 1.5) ** 2)
    weights /= weights.sum()

    moves = drawn
    for axis, side in ((1, 24), (2, 20)):
        places = np.arange(side)[:, None] + offsets
        places = np.where(places < 0, -places - 1, places)
        places = np.where(places >= side, 2 * side - 1 - places, places)
        moves = (
            np.take(moves, places, axis) * weights.reshape((1,) * axis + (1, -1) + (1,) * (2 - axis))
        ).sum(axis + 1)
    moves = 30.0 * moves
    picture = images[0].double().numpy()
    for i in range(24):
        for j in range(20):
            x, y = j + moves[0, i, j], i + moves[1, i, j]
            x0, y0 = np.floor(x), np.floor(y)
            value = np.zeros(3)
            for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1)):
                weight = (1 - abs(y - y0 - dy)) * (1 - abs(x - x0 - dx))
                row, column = (int(v) for v in (y0 + dy, x0 + dx))
                row = -row - 1 if row < 0 else 47 - row if row >= 24 else row
                column = -column - 1 if column < 0 else 39 - column if column >= 20 else column
                value = value + weight * picture[:, row, column]
            assert np.abs(found[:, i, j].numpy() - value).max() < 1.01


def test_an_affine_map_that_moves_all_points_alike_is_a_shift() -> None:
    pixels = pictures(height=30, width=30).float() / 255
    moves = torch.tensor([3.0, -2.0]).expand(2, 3, 2)  # right by 3, up by 2
    found = digital._affine(pixels, moves)
    torch.testing.assert_close(found[:, :, :28, 3:], pixels[:, :, 2:, :27], atol=1e-4, rtol=0)
    torch.testing.assert_close(
        found[:, :, :28, 0], pixels[:, :, 2:, 3], atol=1e-4, rtol=0
    )  # mirrored at the edge


def test_without_strength_nothing_moves() -> None:
    images = pictures()
    assert torch.equal(digital.elastic_transform(images, draws_for(0, range(2), 1), 0.0, 0.0, 0.0), images)
