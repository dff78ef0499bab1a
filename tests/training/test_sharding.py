"""Who takes which images: every image once, pairs together, repeats with keys of their own."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from vitscope.data import load_data
from vitscope.recipes.augment import Mix
from vitscope.recipes.named import get_recipe
from vitscope.recipes.seeding import preserved, seed_all
from vitscope.training.sharding import Repeated, batches, image_name, parts, share

SIZES = [1, 2, 3, 5, 8, 9, 16, 31]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_shares_are_disjoint_and_complete(n: int, world: int) -> None:
    batch = list(range(100, 100 + n))
    shares = [share(batch, rank, world) for rank in range(world)]
    counted = [image for one in shares if one.counted for image in one.images]
    assert sorted(counted) == batch
    assert all(one.images for one in shares)
    assert share(batch, 0, 1).images == batch


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("world", [2, 3, 4])
def test_mixing_shares_is_mixing_the_batch(n: int, world: int) -> None:
    mix = Mix(replace(get_recipe("hdv"), label_smoothing=0.0), n_classes=n)
    images = torch.arange(float(n)).view(n, 1, 1, 1).expand(n, 1, 8, 8).clone()
    labels = torch.arange(n)
    with preserved():
        for seed in range(4):  # mixup and CutMix
            seed_all(seed)
            whole, target = mix(images.clone(), labels)
            for rank in range(world):
                mine = torch.tensor(share(list(range(n)), rank, world).images)
                seed_all(seed)
                part, part_target = mix(images[mine].clone(), labels[mine])
                assert torch.equal(part, whole[mine])
                assert torch.equal(part_target, target[mine])


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("world", [1, 2, 3])
def test_no_part_of_a_share_is_a_single_image(n: int, world: int) -> None:
    for accumulate in (1, 2, 3, 4):
        count = parts(n, accumulate, world)
        sizes = [len(t) for r in range(world) for t in _cut(share(list(range(n)), r, world).images, count)]
        assert len(sizes) == count * world
        assert min(sizes) >= min(2, n)


def _cut(images: list[int], count: int) -> tuple[torch.Tensor, ...]:
    return torch.tensor(images).tensor_split(count)


def test_every_image_once_in_a_new_order_each_epoch() -> None:
    epochs = [batches(60, 17, seed=0, epoch=e) for e in (0, 1)]
    assert [[len(b) for b in chunks] for chunks in epochs] == [[17, 17, 17, 9]] * 2
    flat = [[i for b in chunks for i in b] for chunks in epochs]
    assert [sorted(f) for f in flat] == [list(range(60))] * 2
    assert flat[0] != flat[1]
    assert [len(b) for b in batches(60, 59, 0, 0)] == [59]


@pytest.mark.parametrize("n", [60, 61, 62])
def test_repeated_augmentation_takes_a_third_of_the_images_three_times(n: int) -> None:
    flat = [i for b in batches(n, 6, seed=0, epoch=0, repeats=3) for i in b]
    assert len(set(flat)) == len(flat) >= n - 1  # one image left over is skipped
    times = Counter(i % n for i in flat)
    assert len(times) == -(-len(flat) // 3)
    assert sum(count == 3 for count in times.values()) >= len(times) - 1
    for chunk in batches(60, 6, seed=0, epoch=0, repeats=3):
        assert sorted(Counter(i % 60 for i in chunk).values()) == [3, 3]


def test_repeated_data_keeps_its_images_and_their_names() -> None:
    data = load_data("fashion", split="train", fraction=0.01)
    thrice = Repeated(data, 3)
    n = len(data)
    assert len(thrice) == 3 * n
    assert thrice[n + 4][0].tobytes() == data[4][0].tobytes()
    assert thrice.name(2 * n + 4) == data.name(4)
    assert image_name([1, 2], 1) == "image 1"
