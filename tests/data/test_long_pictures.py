"""Pictures many times as long as wide: the same pixels, without the memory of the whole that is cut off."""

import resource

import numpy as np
import pytest
import torch
from PIL import Image
from timm.data import create_transform

from tests.data.test_preprocessing import CONFIGS, by_timm, photographs
from vitscope.data import DataConfig, preprocess
from vitscope.data.preprocessing import normalise
from vitscope.recipes.named import get_recipe
from vitscope.tasks.masked import MaskedExample

MOST = 1 << 28  # bytes; the whole picture would be 1.2 GB


@pytest.mark.parametrize("wanted", CONFIGS, ids=str)
@pytest.mark.parametrize("shape", [(20, 1001), (1001, 20), (40, 700), (300, 6001)], ids=str)
def test_the_part_that_is_kept_is_the_one_of_the_whole(wanted: DataConfig, shape: tuple[int, int]) -> None:
    """Pillow rounds between its two passes, and which of them comes first depends on the size of what it makes."""
    pictures = [Image.fromarray(pixels) for pixels in photographs(*shape, n=2)]
    std = torch.tensor(wanted.std).view(1, 3, 1, 1)
    levels = (preprocess(pictures, wanted) - by_timm(pictures, wanted)).abs() * 255 * std
    assert levels.max() < 3.01
    assert levels.mean() < 0.4
    if shape[0] < shape[1]:
        assert (levels > 0.5).float().mean() < 0.01


@pytest.mark.parametrize("shape", [(20, 320), (320, 20), (37, 50)], ids=str)
def test_other_pictures_go_the_way_of_timm_to_the_bit(shape: tuple[int, int]) -> None:
    wanted = CONFIGS[1]
    transform = create_transform(
        wanted.input_size, interpolation=wanted.interpolation, normalize=False, crop_pct=wanted.crop_pct
    )
    pictures = [Image.fromarray(pixels) for pixels in photographs(*shape, n=2)]
    whole = torch.stack([transform(picture) for picture in pictures])
    assert torch.equal(preprocess(pictures, wanted), normalise(whole, wanted))


@pytest.mark.parametrize("mode", ["center", "border", "squash"])
@pytest.mark.parametrize("size", [(1, 6000), (6000, 1)], ids=str)
def test_a_line_of_pixels_takes_little_memory(mode: str, size: tuple[int, int]) -> None:
    wanted = DataConfig((3, 224, 224), crop_mode=mode)  # type: ignore[arg-type]
    line = Image.new("RGB", size, (200, 10, 10))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    from_picture = preprocess([line], wanted)
    from_array = preprocess(np.asarray(line)[None], wanted)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MOST
    assert from_picture.shape == (1, 3, 224, 224)
    torch.testing.assert_close(from_picture, from_array, rtol=0, atol=1e-6)


def test_training_on_masks_cuts_a_long_picture_first() -> None:
    example = MaskedExample(get_recipe("ade20k"), DataConfig((3, 224, 224)))
    line = Image.fromarray(np.arange(6000, dtype=np.uint32).view(np.uint8).reshape(1, 6000, 4)[..., :3])
    mask = np.zeros((1, 6000), np.uint8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    image, classes = example(line, mask)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MOST
    assert image.shape == (3, 224, 224)
    assert classes.shape == (224, 224)
