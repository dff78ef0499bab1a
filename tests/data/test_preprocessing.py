import numpy as np
import pytest
import torch
from PIL import Image
from timm.data import create_transform

from vitscope.core.errors import BadData
from vitscope.data import DataConfig, load_data, preprocess

STD = (0.23, 0.22, 0.25)


def config(
    side: int, crop_pct: float, interpolation: str = "bicubic", crop_mode: str = "center"
) -> DataConfig:
    return DataConfig((3, side, side), (0.48, 0.45, 0.4), STD, interpolation, crop_pct, crop_mode)


def by_timm(pictures: list[Image.Image], wanted: DataConfig) -> torch.Tensor:
    values = wanted.to_dict()
    transform = create_transform(tuple(values.pop("input_size")), is_training=False, **values)
    return torch.stack([transform(picture) for picture in pictures])


def photographs(height: int, width: int, n: int = 4) -> np.ndarray:
    """Smooth colour images with some noise: what a resampling filter meets in practice."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (n, 6, 6, 3), np.uint8)
    smooth = [
        np.asarray(Image.fromarray(c).resize((width, height), Image.Resampling.BICUBIC)) for c in coarse
    ]
    return np.clip(np.stack(smooth) + rng.normal(0, 8, (n, height, width, 3)), 0, 255).astype(np.uint8)


CONFIGS = [
    config(32, 1.0),
    config(32, 0.875),
    config(64, 0.9, "bilinear"),
    config(24, 0.95),
    config(48, 1.0, crop_mode="squash"),
    config(40, 0.9, crop_mode="border"),
    config(40, 0.9, "lanczos"),
    config(40, 1.0, "nearest"),
    DataConfig((3, 40, 24), std=STD, crop_pct=1.0),
]


@pytest.mark.parametrize("wanted", CONFIGS, ids=str)
@pytest.mark.parametrize("shape", [(32, 32), (50, 37)])
def test_arrays_agree_with_timms_transform_to_one_grey_level(
    wanted: DataConfig, shape: tuple[int, int]
) -> None:
    pixels = photographs(*shape)
    ours = preprocess(pixels, wanted)
    reference = by_timm([Image.fromarray(p) for p in pixels], wanted)
    levels = (ours - reference).abs() * 255 * torch.tensor(STD).view(1, 3, 1, 1)
    assert ours.shape == reference.shape
    assert ours.dtype == torch.float32
    assert levels.max() < 1.01
    assert (levels > 0.5).float().mean() < 0.05


@pytest.mark.parametrize("wanted", CONFIGS, ids=str)
def test_pictures_of_any_size_agree_with_timms_transform(wanted: DataConfig) -> None:
    pictures = [Image.fromarray(photographs(h, w, 1)[0]) for h, w in ((40, 60), (61, 33), (32, 32))]
    torch.testing.assert_close(preprocess(pictures, wanted), by_timm(pictures, wanted), rtol=0, atol=1e-5)


def test_without_resizing_the_values_are_the_formula_in_float64() -> None:
    data = load_data("fashion")
    assert data.images is not None
    wanted = config(32, 1.0)
    x = data.images[:64].astype(np.float64) / 255  # one channel is spread over three
    reference = ((x - np.array(wanted.mean)) / np.array(wanted.std)).transpose(0, 3, 1, 2)
    assert np.abs(preprocess(data.images[:64], wanted).numpy() - reference).max() < 1e-6


def test_colour_to_grey_is_pils_luminance() -> None:
    pixels = photographs(32, 32)
    grey = DataConfig((1, 32, 32), (0.0,), (1 / 255,), crop_pct=1.0)
    reference = np.stack([np.asarray(Image.fromarray(p).convert("L")) for p in pixels])[:, None]
    assert np.abs(preprocess(pixels, grey).numpy() - reference).max() <= 1.001
    as_pictures = preprocess([Image.fromarray(p) for p in pixels], grey).numpy()
    assert np.abs(as_pictures - reference).max() < 1e-3


def test_transparent_arrays_are_laid_over_white_like_pictures() -> None:
    alpha = np.random.default_rng(1).integers(0, 256, (4, 32, 32, 1), np.uint8)
    pixels = np.concatenate([photographs(32, 32), alpha], axis=-1)
    wanted = DataConfig((3, 32, 32), (0.0,), (1 / 255,), crop_pct=1.0)
    pictures = preprocess([Image.fromarray(p) for p in pixels], wanted)
    assert (preprocess(pixels, wanted) - pictures).abs().max() <= 1.001


def test_memory_mapped_and_tensor_pixels(tmp_path: object) -> None:
    pixels = photographs(32, 32)
    np.save(f"{tmp_path}/x.npy", pixels)
    mapped = np.load(f"{tmp_path}/x.npy", mmap_mode="r")
    expected = preprocess(pixels, config(32, 1.0))
    assert torch.equal(preprocess(mapped, config(32, 1.0)), expected)
    assert torch.equal(preprocess(torch.from_numpy(pixels), config(32, 1.0)), expected)
    assert torch.equal(preprocess(pixels, config(32, 1.0), device="cpu"), expected)


@pytest.mark.parametrize(
    ("pixels", "channels", "message"),
    [
        (np.zeros((2, 8, 8, 2), np.uint8), 3, "2 channels and the model takes 3"),
        (np.zeros((2, 8, 8, 3), np.uint8), 5, "3 channels and the model takes 5"),
        (np.zeros((2, 8, 8, 3), np.float32), 3, "expected uint8"),
        (np.zeros((8, 8, 3), np.uint8), 3, "expected uint8"),
    ],
)
def test_what_cannot_be_preprocessed_is_said(pixels: np.ndarray, channels: int, message: str) -> None:
    with pytest.raises(BadData, match=message):
        preprocess(pixels, DataConfig((channels, 8, 8), (0.5,), (0.5,)))
