"""Augmentation: shapes, seeds, targets."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from timm.data import create_transform

from vitscope.core.errors import BadData, VitscopeError
from vitscope.data import DataConfig, load_data
from vitscope.recipes.augment import AugmentedData, Mix, training_transform
from vitscope.recipes.named import get_recipe
from vitscope.recipes.seeding import random_state_preserved, seed_all

SMALL = DataConfig(input_size=(3, 32, 32), mean=(0.2, 0.3, 0.4), std=(0.5, 0.6, 0.7), crop_pct=1.0)
PLAIN = replace(get_recipe("mini"), auto_augment=None, erase=0.0, flip=0.0, mix_probability=0.0)


def picture(seed: int = 0, side: int = 32) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8))


def test_large_images_get_what_timms_factory_gives() -> None:
    recipe, size = get_recipe("hdv"), (3, 48, 48)
    theirs = create_transform(
        size,
        is_training=True,
        auto_augment=recipe.auto_augment,
        re_prob=recipe.erase,
        re_mode="pixel",
        interpolation="bicubic",
        mean=(0.2, 0.3, 0.4),
        std=(0.5, 0.6, 0.7),
    )
    ours = training_transform(recipe, replace(SMALL, input_size=size))
    with random_state_preserved():
        for seed in range(20):
            seed_all(seed)
            expected = theirs(picture(seed, 60))
            seed_all(seed)
            torch.testing.assert_close(ours(picture(seed, 60)), expected)


def test_small_images_are_shifted_and_nothing_else() -> None:
    image = picture()
    shifted = training_transform(PLAIN, SMALL)(image)
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (SMALL.mean, SMALL.std))
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255
    padded = torch.nn.functional.pad(pixels, (4, 4, 4, 4))
    crops = [padded[:, y : y + 32, x : x + 32] for y in range(9) for x in range(9)]
    assert min((shifted * std + mean - crop).abs().max().item() for crop in crops) < 1e-5


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P"])
def test_any_picture_for_any_model(mode: str, channels: int) -> None:
    config = replace(SMALL, input_size=(channels, 32, 32), mean=(0.5,) * channels, std=(0.5,) * channels)
    transform = training_transform(get_recipe("mini"), config)
    for _ in range(20):
        assert transform(picture().convert(mode)).shape == (channels, 32, 32)


def test_pictures_of_another_size_are_resized() -> None:
    assert training_transform(get_recipe("mini"), SMALL)(picture(side=50)).shape == (3, 32, 32)


def test_increasing_augmentation_at_its_strongest() -> None:
    transform = training_transform(replace(PLAIN, auto_augment="rand-m10-inc1"), SMALL)
    with random_state_preserved():
        for seed in range(60):
            seed_all(seed)
            assert transform(picture(seed)).isfinite().all()


def test_tensors_are_refused() -> None:
    with pytest.raises(BadData, match="yields Tensor images; expected PIL images or uint8 arrays"):
        training_transform(PLAIN, SMALL)(torch.zeros(3, 32, 32))


def test_five_channels_are_refused() -> None:
    config = DataConfig(input_size=(5, 32, 32), mean=(0.5,) * 5, std=(0.5,) * 5)
    with pytest.raises(VitscopeError, match="images of 5 channels"):
        training_transform(PLAIN, config)


def test_example_depends_on_seed_epoch_and_index_only() -> None:
    data = load_data("fashion", split="train")
    with random_state_preserved():
        first = AugmentedData(data, get_recipe("mini"), SMALL, seed=0)
        a = [first[i][0] for i in (3, 4, 5)]
        again = AugmentedData(data, get_recipe("mini"), SMALL, seed=0)
        b = [again[i][0] for i in (5, 4, 3)]
        assert all(torch.equal(x, y) for x, y in zip(a, reversed(b), strict=True))
        again.epoch = 1
        assert not torch.equal(again[3][0], a[0])
        other = AugmentedData(data, get_recipe("mini"), SMALL, seed=1)
        assert not torch.equal(other[3][0], a[0])


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_targets_are_distributions_and_odd_batches_work(n: int) -> None:
    recipe = replace(get_recipe("hdv"))
    images, labels = torch.randn(n, 3, 8, 8), torch.arange(n) % 4
    with random_state_preserved():
        mixed, target = Mix(recipe, 4)(images.clone(), labels)
    assert mixed.shape == images.shape
    torch.testing.assert_close(target.sum(1), torch.ones(n))
    if n % 2:
        assert torch.equal(mixed[-1], images[-1])
        expected = torch.full((4,), 0.1 / 4)
        expected[labels[-1]] += 0.9
        torch.testing.assert_close(target[-1], expected)


def test_mixup_target_tells_how_much_of_each_image_there_is() -> None:
    recipe = replace(get_recipe("hdv"), cutmix=0.0, label_smoothing=0.0)
    images = torch.stack([torch.full((3, 8, 8), float(i)) for i in range(4)])
    with random_state_preserved():
        seed_all(0)
        mixed, target = Mix(recipe, 4)(images.clone(), torch.arange(4))
    torch.testing.assert_close(mixed[:, 0, 0, 0], target @ torch.arange(4.0))
    assert 0 < target[0, 0] < 1


def test_cutmix_target_is_the_area() -> None:
    recipe = replace(get_recipe("hdv"), mixup=0.0, label_smoothing=0.0)
    images = torch.stack([torch.full((3, 8, 8), float(i)) for i in range(4)])
    with random_state_preserved():
        seed_all(1)
        mixed, target = Mix(recipe, 4)(images.clone(), torch.arange(4))
    own = (mixed[:, 0] == torch.arange(4.0).view(4, 1, 1)).float().mean((1, 2))
    torch.testing.assert_close(own, target.diagonal())


def test_no_mixing() -> None:
    images = torch.randn(4, 3, 8, 8)
    mixed, target = Mix(replace(PLAIN, mixup=0.0, cutmix=0.0, mix_probability=1.0), 4)(
        images.clone(), torch.arange(4)
    )
    assert torch.equal(mixed, images)
    torch.testing.assert_close(target, 0.9 * torch.eye(4) + 0.025)
